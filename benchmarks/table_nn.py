"""Maps of `nn` with their gradients, over those of the package entmax and of PyTorch."""

import numpy as np
from report import number, wanted
from timing import alternate, ratios, seconds

SHAPES = [(100_000, 100), (100_000, 10), (2_000, 5_000)]


def maps():
    """Ours and theirs, by name; the package entmax may be missing."""
    import torch

    from sklearn_softkmeans import nn

    result = {"softmax (torch)": (nn.softmax, lambda scores: torch.softmax(scores, -1))}
    try:
        import entmax
    except ImportError:
        return result
    result["sparsemax (entmax)"] = nn.sparsemax, lambda scores: entmax.sparsemax(scores, dim=-1)
    result["entmax15 (entmax)"] = nn.entmax15, lambda scores: entmax.entmax15(scores, dim=-1)
    return result


def forward_backward(function, scores, vector):
    function(scores).backward(vector)
    scores.grad = None


def write(report, args):
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(args.threads)
    report.title("Maps of tensors, forward and backward")
    report.line(
        f"PyTorch {torch.__version__}, CPU. Ours over the other: below 1, ours is faster.\n"
    )
    report.head("map, shape, dtype", "ours, ms", "other, ms", "ours / other")
    for name, sides in maps().items():
        for shape in SHAPES:
            for dtype in [torch.float32, torch.float64]:
                label = f"{name}, {shape[0]}x{shape[1]}, {str(dtype).removeprefix('torch.')}"
                if not wanted(label, args.rows):
                    continue
                size = (shape[0] // 100, shape[1]) if args.quick else shape
                draws = np.random.default_rng(0).normal(scale=2.0, size=(2, *size))
                scores, vector = torch.from_numpy(draws).to(dtype)
                scores = scores.clone().requires_grad_()
                calls = [
                    lambda f=f, z=scores, v=vector: seconds(lambda: forward_backward(f, z, v))
                    for f in sides
                ]
                alternate(2, *calls)  # warms up
                times = alternate(args.repeats, *calls)
                ms = 1e3 * np.median(times, axis=0)
                report.row(label, *map(number, ms), number(np.median(1.0 / ratios(times))))
