"""Maps onto the simplex, over those of SciPy and of the package entmax (with PyTorch)."""

import numpy as np
from report import number, wanted
from scipy.special import softmax
from timing import alternate, ratios, seconds

from sklearn_softkmeans import projections

SHAPES = [(100_000, 100), (100_000, 10), (1_000_000, 3), (2_000, 5_000)]


def peers():
    """The others' maps of a NumPy array along its last axis, by the name of ours."""
    maps = {"softmax": ("scipy", lambda scores: softmax(scores, axis=-1))}
    try:
        import entmax
        import torch
    except ImportError:
        return maps
    for name in ["sparsemax", "entmax15"]:
        other = getattr(entmax, name)
        maps[name] = "entmax", lambda scores, f=other: f(torch.from_numpy(scores), dim=-1).numpy()
    return maps


def write(report, args):
    report.title("Maps of an array of scores onto the simplex")
    report.line("Median time of the other over that of ours: above 1, ours is faster.\n")
    report.head("map, shape, dtype", "ours, ms", "other, ms", "other / ours")
    for name, (other, peer) in peers().items():
        ours = getattr(projections, name)
        for shape in SHAPES:
            for dtype in ["float32", "float64"]:
                label = f"{name} ({other}), {shape[0]}x{shape[1]}, {dtype}"
                if not wanted(label, args.rows):
                    continue
                size = (shape[0] // 100, shape[1]) if args.quick else shape
                scores = np.random.default_rng(0).normal(scale=2.0, size=size).astype(dtype)
                sides = [lambda f=f, z=scores: seconds(lambda: f(z)) for f in (ours, peer)]
                alternate(2, *sides)  # warms up
                times = alternate(args.repeats, *sides)
                ms = 1e3 * np.median(times, axis=0)
                report.row(label, *map(number, ms), number(np.median(ratios(times))))
