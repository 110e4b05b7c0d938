"""A new process: import, and the first fit without and with compiled kernels on disk."""

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from report import number

CHILD = Path(__file__).with_name("first_fit.py")


def new_process(estimator, cache):
    """What first_fit.py measures, in seconds by name."""
    command = [sys.executable, CHILD, estimator]
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    result = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    return json.loads(result.stdout)


def cold_and_warm(estimator, repeats):
    cold, warm = [], []
    for _ in range(repeats):
        with TemporaryDirectory() as cache:
            cold.append(new_process(estimator, cache))
            # Twice: the first is still slower where files are not yet in memory.
            warm += [new_process(estimator, cache) for _ in range(2)]
    return cold, warm


def write(report, args):
    report.title("A new process: import, and the first fit of iris")
    report.line("Cold: no compiled kernels on disk. Seconds.\n")
    report.head(
        "", "import scikit-learn", "import ours", "first fit, cold", "first fit, warm", "second fit"
    )
    for estimator in ["KMeans", "SoftKMeans", "EntmaxKMeans"]:
        cold, warm = cold_and_warm(estimator, min(args.repeats, 3))
        report.row(
            estimator,
            *(number(median(run[key] for run in warm)) for key in ["sklearn", "ours"]),
            number(median(run["fit"] for run in cold)),
            number(median(run["fit"] for run in warm)),
            number(median(run["again"] for run in warm), 4),
        )
