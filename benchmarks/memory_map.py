"""Peak memory and time of a fit to a file that is larger than memory should be.

    python benchmarks/memory_map.py --gib 8

Writes a file of random clusters, fits EntmaxKMeans to it as a memory map in a new process, and
prints the largest resident memory of that process. Linux only.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

N_FEATURES = 64
ROWS_OF_A_GIB = 2**30 // (8 * N_FEATURES)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Peak memory of a fit to a memory map.")
    parser.add_argument("--gib", type=float, default=8.0, help="size of the file (default: 8)")
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--folder", help="where to write the file (default: a temporary folder)")
    parser.add_argument("--max-iter", type=int, default=5)
    parser.add_argument("--child", metavar="FILE", help=argparse.SUPPRESS)
    return parser.parse_args()


def write_rows(path, n_samples):
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=3.0, size=(10, N_FEATURES))
    with path.open("wb") as file:
        for start in range(0, n_samples, 2**16):
            n_rows = min(2**16, n_samples - start)
            rows = rng.standard_normal((n_rows, N_FEATURES))
            file.write((rows + centers[rng.integers(10, size=n_rows)]).tobytes())


def peak_mib():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) / 1024


def measure(args):
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from sklearn_softkmeans import EntmaxKMeans

    warnings.simplefilter("ignore", ConvergenceWarning)  # fits are cut short on purpose
    X = np.memmap(args.child, np.float64, "r").reshape(-1, N_FEATURES)
    model = EntmaxKMeans(args.clusters, max_iter=args.max_iter, random_state=0)
    model.fit(np.random.default_rng(0).normal(size=(1000, N_FEATURES)))  # compiles
    before, start = peak_mib(), perf_counter()
    model.fit(X)
    seconds = perf_counter() - start
    print(f"{type(X).__name__} of {X.nbytes / 2**30:.2f} GiB, {X.shape[0]} x {X.shape[1]}")
    print(f"{model.n_iter_} iterations and labels: {seconds:.0f} s, inertia {model.inertia_:.6g}")
    print(f"peak resident memory: {peak_mib():.0f} MiB; before the fit {before:.0f} MiB")


def main():
    args = parse_arguments()
    if args.child:
        measure(args)
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "rows.bin"
        write_rows(path, int(args.gib * ROWS_OF_A_GIB))
        # The peak of a process includes what its parent had when it started.
        command = [sys.executable, __file__, *sys.argv[1:], "--child", str(path)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
