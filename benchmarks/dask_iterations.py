"""Cost of an iteration on dask for each row, and what moves between workers.

    python benchmarks/dask_iterations.py

One task at a time on one thread, so that seconds are those of a core. The projection at the end
follows from what was measured; doc/scale.md lists what it assumes.
"""

import argparse
import pickle
import warnings

import dask
import dask.array as da
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from timing import seconds

from sklearn_softkmeans.dask import DaskEntmaxKMeans


def parse_arguments():
    parser = argparse.ArgumentParser(description="Cost of an iteration on dask.")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--few", type=int, default=2)
    parser.add_argument("--many", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def main():
    args = parse_arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)  # fits are cut short on purpose
    rng = np.random.default_rng(0)
    centers = rng.normal(scale=0.5, size=(args.clusters, args.features))
    rows = centers[rng.integers(args.clusters, size=args.rows)]
    rows = rows + rng.normal(size=rows.shape)
    X = da.from_array(rows, chunks=(args.rows // 4, args.features))
    settings = {"sigma": 0.5, "init": rows[: args.clusters], "tol": 0.0, "solver": "em"}

    def fit(max_iter):
        DaskEntmaxKMeans(args.clusters, max_iter=max_iter, **settings).fit(X)

    with dask.config.set(scheduler="synchronous"):
        fit(1)  # compiles
        times = [
            seconds(lambda: fit(args.many)) - seconds(lambda: fit(args.few))
            for _ in range(args.repeats)
        ]
    per_row = np.median(times) / (args.many - args.few) / args.rows
    sums = np.zeros((args.clusters, args.features + 1))
    moved = len(pickle.dumps(sums, protocol=5))
    print(f"{args.rows} x {args.features}, {args.clusters} clusters, float64, one core")
    print(f"each row in each iteration: {1e6 * per_row:.2f} microseconds")
    print(
        f"sums of a block: {moved} bytes, k (d + 1) 8 = {sums.nbytes}; centers: as many, less k 8"
    )
    print("1e9 rows, one iteration, if all cores compute all the time:")
    for n_cores in (16, 64, 256, 1024):
        print(f"  {n_cores:5} cores: {1e9 * per_row / n_cores:8.1f} s")


if __name__ == "__main__":
    main()
