"""Run the examples that draw, without a screen, and save their pictures.

python examples/run.py [--pictures FOLDER] [NAME ...]
"""

import argparse
import ast
import importlib.util
import runpy
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

HERE = Path(__file__).parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=Path, default=Path("build/examples"), metavar="FOLDER")
    parser.add_argument("names", nargs="*", help="plot_x for plot_x.py; all where none is given")
    args = parser.parse_args()
    sys.path.insert(0, str(HERE))  # as for a script that is run by itself
    args.pictures.mkdir(parents=True, exist_ok=True)
    compile_kernels()
    for script in sorted(HERE.glob("plot_*.py")):
        if not args.names or script.stem in args.names:
            run(script, args.pictures)


def compile_kernels():
    """Small fits, so that the time of the first example is its own."""
    for Model in (SoftKMeans, EntmaxKMeans):
        Model(2, sigma=1.0).fit([[0.0], [5.0]])


def missing(script):
    """Libraries that a script imports and that are not installed."""
    names = set()
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    tops = {name.partition(".")[0] for name in names}
    if "sklearn_softkmeans.nn" in names:
        tops.add("torch")
    if "sklearn_softkmeans.dask" in names:
        tops.add("dask")
    return sorted(name for name in tops if importlib.util.find_spec(name) is None)


def run(script, folder):
    if absent := missing(script):
        print(f"{script.name}: skipped, needs {', '.join(absent)}", flush=True)
        return
    begin = time.perf_counter()
    runpy.run_path(str(script), run_name="__main__")
    seconds = time.perf_counter() - begin
    numbers = plt.get_fignums()
    for number in numbers:
        plt.figure(number).savefig(folder / f"{script.stem}_{number}.png", dpi=100)
    print(f"{script.name}: {len(numbers)} pictures in {folder}, {seconds:.1f} s", flush=True)
    plt.close("all")


if __name__ == "__main__":
    main()
