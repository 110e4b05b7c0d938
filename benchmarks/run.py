"""Measure speed side by side with scikit-learn, and print the results as Markdown.

    python benchmarks/run.py --help

README.md, beside this file, says what is measured and how to read it.
"""

import argparse
import os
import warnings

THREAD_VARIABLES = [
    "OMP_NUM_THREADS",  # scikit-learn's loops
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMBA_NUM_THREADS",  # ours
]
TABLES = [
    "iterations",
    "fits",
    "scaling",
    "profile",
    "passes",
    "starts",
    "perplexity",
    "batches",
    "small",
    "projections",
    "nn",
    "peers",
    "startup",
]


def parse_arguments():
    parser = argparse.ArgumentParser(description="Speed, side by side with scikit-learn.")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=TABLES, help="these tables")
    parser.add_argument(
        "--rows",
        nargs="+",
        default=["*"],
        metavar="PATTERN",
        help="rows of all tables but `small` and `startup` whose label matches one of these, "
        "such as '*float32' or '100000x*'",
    )
    parser.add_argument(
        "--columns",
        nargs="+",
        default=["*"],
        metavar="PATTERN",
        help="columns of the tables `iterations` and `profile` that match one of these, such as "
        "'*hot'",
    )
    parser.add_argument("--repeats", type=int, default=7, help="repetitions (default: 7)")
    parser.add_argument(
        "--threads", type=int, default=usable_cores(), help="for all sides (default: all cores)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="little data and one repetition: does it run at all?"
    )
    parser.add_argument("--plot", metavar="FILE", help="where to save the plot of `scaling`")
    parser.add_argument("--output", metavar="FILE", help="also write the Markdown to this file")
    args = parser.parse_args()
    if args.repeats < 1 or args.threads < 1:
        parser.error("--repeats and --threads must be at least 1")
    if args.quick:
        args.repeats = 1
    return args


def usable_cores():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def main():
    args = parse_arguments()
    # Libraries read these when they are loaded, so everything else is imported after.
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(args.threads)))

    from importlib import import_module

    from report import Report
    from sklearn.exceptions import ConvergenceWarning

    # Fits are cut short on purpose.
    warnings.simplefilter("ignore", ConvergenceWarning)
    with Report(args.output) as report:
        report.machine()
        if args.quick:
            report.line("\nOnly a test of the benchmarks: little data, and times without meaning.")
        for table in TABLES:
            if table in args.only:
                import_module(f"table_{table}").write(report, args)


if __name__ == "__main__":
    main()
