"""
Gradient descent that is K-means
================================

With the responsibilities fixed, the gradient of the free energy in a center is
:math:`2 N_j (c_j - m_j)`: :math:`N_j` is the mass of the cluster and :math:`m_j` the weighted mean
of its rows. So a step of gradient descent with the rate :math:`1 / (2 N_j)` lands on the mean
exactly. By the envelope theorem this is the full gradient, for softmax and entmax alike:
:class:`~sklearn_softkmeans.nn.SoftKMeansLayer`, trained by plain SGD with that rate, is soft
K-means. As the temperature falls its path becomes that of Lloyd's algorithm.

For entmax that happens at a positive temperature, and exactly: where the two smallest squared
distances of every row differ by ``2 * sigma**2 / (alpha - 1)`` or more, responsibilities are
one-hot.
"""

# %%
# Lloyd's algorithm, and the layer under SGD
# ------------------------------------------

import argparse

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_blobs

from sklearn_softkmeans.nn import SoftKMeansLayer

torch.set_num_threads(1)  # a layer this small gains nothing from more

parser = argparse.ArgumentParser()
parser.add_argument("--picture", help="file to draw to")
arguments, _ = parser.parse_known_args()

X, _ = make_blobs(600, centers=5, cluster_std=1.3, random_state=3)
rows = torch.from_numpy(X)
start = X[:5]
N_STEPS = 15


def lloyd():
    """Centers of K-means, step by step."""
    centers = [start]
    for _ in range(N_STEPS):
        labels = ((X[:, None] - centers[-1]) ** 2).sum(-1).argmin(1)
        centers.append(np.array([X[labels == j].mean(0) for j in range(len(start))]))
    return np.array(centers)


def sgd(alpha, sigma):
    """Centers of the layer, step by step: each with a learning rate of its own."""
    layer = SoftKMeansLayer(*start.shape, sigma=sigma, alpha=alpha, dtype=torch.float64)
    layer.centers.data = torch.from_numpy(start.copy())
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    centers = [start]
    for _ in range(N_STEPS):
        optimizer.zero_grad()
        layer.free_energy(rows, reduction="sum").backward()
        layer.centers.grad /= 2 * layer.end_epoch()[:, None]
        optimizer.step()
        centers.append(layer.centers.detach().numpy().copy())
    return np.array(centers)


# %%
# How far apart the paths are
# ---------------------------
#
# The largest distance of a center to that of Lloyd's algorithm, over all steps. At sigma = 0.01 all
# three are within rounding; entmax is from about 0.06 on, softmax approaches steadily. Above, a row
# that goes the other way early on makes a path of its own.

SIGMAS = np.geomspace(3.0, 0.01, 21)
path = lloyd()
gaps = {}
for name, alpha in (("softmax", 1.0), ("entmax-1.5", 1.5), ("sparsemax", 2.0)):
    gaps[name] = [np.abs(sgd(alpha, sigma) - path).max() for sigma in SIGMAS]
    few = ", ".join(
        f"{s:.2g}: {gap:.1e}" for s, gap in zip(SIGMAS[::4], gaps[name][::4], strict=True)
    )
    print(f"{name:10}  {few}")

# %%
# Paths
# -----

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
left.scatter(*X.T, s=5, color="0.75", linewidths=0)
for sigma, color in ((3.0, "#D55E00"), (1.5, "#E69F00"), (0.1, "#0072B2")):
    steps = sgd(1.5, sigma)
    for j in range(len(start)):
        label = f"σ = {sigma:g}" if j == 0 else None
        left.plot(*steps[:, j].T, ".-", color=color, markersize=4, label=label)
for j in range(len(start)):
    label = "Lloyd" if j == 0 else None
    left.plot(*path[:, j].T, "o", color="black", fillstyle="none", markersize=7, label=label)
left.set(title="entmax-1.5 under SGD, and Lloyd", aspect="equal", xticks=[], yticks=[])
left.legend()
colors = ("#E69F00", "#0072B2", "#009E73")
for (name, values), color in zip(gaps.items(), colors, strict=True):
    right.loglog(SIGMAS, np.maximum(values, 1e-16), "o-", markersize=4, color=color, label=name)
right.set(
    title="largest distance of the path to Lloyd's",
    xlabel="σ",
    ylabel="over all steps, centers and coordinates",
)
right.legend()
if arguments.picture:
    figure.savefig(arguments.picture, dpi=110)
plt.show()
