"""Memory and time of responsibilities of many clusters, as CSR and as a dense array.

    python benchmarks/sparse_shares.py

Each in a process of its own, which prints the largest resident memory beyond what it had before the
call. Linux only.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from memory_map import peak_mib
from sklearn.datasets import make_blobs

N_FEATURES = 16


def parse_arguments():
    parser = argparse.ArgumentParser(description="Memory and time of sparse responsibilities.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", choices=["CSR", "dense"], help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(args):
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    from sklearn_softkmeans import EntmaxKMeans

    warnings.simplefilter("ignore", ConvergenceWarning)  # the fit is cut short on purpose
    X = make_blobs(args.rows, N_FEATURES, centers=args.clusters, random_state=0)[0]
    X = X.astype(np.float32)
    sparse = args.child == "CSR"
    model = EntmaxKMeans(args.clusters, sparse_output=sparse, max_iter=5, random_state=0)
    model.fit(X[:: max(1, args.rows // 100_000)])
    model.transform(X[:1000])  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far was that of the data
    seconds, before = [], peak_mib()
    for _ in range(args.repeats):
        start = perf_counter()
        shares = model.transform(X)
        seconds.append(perf_counter() - start)
        per_row = (shares.nnz if sparse else np.count_nonzero(shares)) / args.rows
        del shares
    print(
        f"{args.child}: {np.median(seconds):.2f} s, {peak_mib() - before:.0f} MiB beyond X, "
        f"{per_row:.3f} clusters to a row"
    )


def main():
    args = parse_arguments()
    if args.child:
        measure(args)
        return
    print(f"{args.rows} x {N_FEATURES} float32, {args.clusters} clusters, sigma='auto'", flush=True)
    for kind in ["CSR", "dense"]:
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child", kind], check=True)


if __name__ == "__main__":
    main()
