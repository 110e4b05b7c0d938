"""Markdown on the terminal and in a file, line by line as results arrive."""

import os
import platform
from fnmatch import fnmatchcase
from importlib import import_module

import numpy as np


def wanted(label, patterns):
    """Whether a filter of the command line lets this row or column through."""
    return any(fnmatchcase(label, pattern) for pattern in patterns)


class Report:
    def __init__(self, path=None):
        self._file = open(path, "w", encoding="utf-8") if path else None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self._file:
            self._file.close()

    def line(self, text=""):
        print(text, flush=True)
        if self._file:
            print(text, file=self._file, flush=True)

    def title(self, text):
        self.line(f"\n## {text}\n")

    def head(self, *names):
        """Begin a table; the first column is text, the others are numbers."""
        self.row(*names)
        self.line("|---|" + "--:|" * (len(names) - 1))

    def row(self, *cells):
        self.line("| " + " | ".join(cells) + " |")

    def machine(self):
        self.line("# Benchmarks\n")
        self.line(f"- {platform.system()}, {cpu()}, {os.cpu_count()} cores")
        packages = ["numpy", "scipy", "sklearn", "numba", "sklearn_softkmeans"]
        versions = [f"{name} {import_module(name).__version__}" for name in packages]
        self.line(f"- Python {platform.python_version()}, {', '.join(versions)}")
        self.line(f"- threads: {threads()}")
        if hasattr(os, "getloadavg"):
            load = os.getloadavg()[0]
            self.line(f"- load average before the start: {load:.1f} (see README.md if above 0.3)")


def cpu():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def threads():
    """What each library says it will use, not what it was asked to."""
    import numba
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
    from threadpoolctl import threadpool_info

    blas = {
        f"{pool['internal_api']} {pool['version']}: {pool['num_threads']}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return (
        f"KMeans (OpenMP) {_openmp_effective_n_threads()}, ours (NUMBA_NUM_THREADS) "
        f"{numba.config.NUMBA_NUM_THREADS}, BLAS {', '.join(sorted(blas))} "
        "(both sides run it on one thread inside their loops)"
    )


def number(value, digits=2):
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"


def geometric_mean(values):
    """NaN where a value is missing, or negative as short and noisy measurements can be."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(np.exp(np.mean(np.log(values))))
