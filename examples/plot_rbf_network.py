"""
A radial basis function network, with centers fixed and with centers trained
============================================================================

A row's responsibilities are the hidden layer of a normalised radial basis function network; a
linear layer on top of them classifies. Classically the centers come from K-means and only the
linear layer is trained. :class:`~sklearn_softkmeans.nn.SoftKMeansLayer` makes the centers weights
like any others, so that both can be trained together, from the same start. Few centers then do what
takes many that are fixed: K-means puts centers where the rows are, training where classes part.
"""

# %%
# The network
# -----------
#
# Half of the digits train, the other half test. The fixed centers are those of
# :class:`~sklearn_softkmeans.SoftKMeans`, at three times the temperature that it finds, since
# hardly any row is shared at that one.

import argparse

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklearn_softkmeans import SoftKMeans
from sklearn_softkmeans.nn import SoftKMeansLayer

torch.set_num_threads(1)  # a network this small gains nothing from more

X, y = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
X_train, X_test, y_train, y_test = (
    torch.from_numpy(part) for part in train_test_split(X, y, test_size=0.5, random_state=0)
)


def accuracy(n_centers, train_centers, seed):
    """Accuracy on the test half, and the centers."""
    torch.manual_seed(seed)
    estimator = SoftKMeans(n_centers, random_state=seed).fit(X_train.numpy())
    layer = SoftKMeansLayer.from_estimator(estimator)
    layer.set_sigma(3 * estimator.sigma_)
    layer.centers.requires_grad_(train_centers)
    network = torch.nn.Sequential(layer, torch.nn.Linear(n_centers, 10))
    optimizer = torch.optim.Adam(
        [
            {"params": network[1].parameters(), "lr": 0.3},
            {"params": network[0].parameters(), "lr": 0.02},
        ]
    )
    for _ in range(100):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(X_train), y_train).backward()
        optimizer.step()
    with torch.no_grad():
        correct = network(X_test).argmax(-1) == y_test
    return float(correct.double().mean()), layer.centers.detach().numpy()


# %%
# Accuracy against the number of centers
# --------------------------------------
#
# Means of three seeds; the dots are the seeds. Ten trained centers come close to forty fixed ones,
# and from about eighty on training the centers gains nothing.

parser = argparse.ArgumentParser()
parser.add_argument("--picture", help="file to draw to")
arguments, _ = parser.parse_known_args()

NUMBERS = [5, 10, 20, 40, 80]
SEEDS = range(3)
runs = {
    (trained, n): [accuracy(n, trained, seed) for seed in SEEDS]
    for trained in (False, True)
    for n in NUMBERS
}
means = {key: np.mean([score for score, _ in run]) for key, run in runs.items()}
print("centers  fixed  trained")
for n in NUMBERS:
    print(f"{n:7}  {means[False, n]:.3f}  {means[True, n]:.3f}")

# %%
# What training does to centers
# -----------------------------
#
# Ten centers as K-means has them look like digits; trained ones stress what tells them apart.

figure = plt.figure(figsize=(11, 4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[1, 1])
ax = left.subplots()
for trained, label, color in ((False, "fixed", "#0072B2"), (True, "trained", "#E69F00")):
    ax.plot(NUMBERS, [means[trained, n] for n in NUMBERS], "o-", color=color, label=label)
    ax.plot(NUMBERS, [[score for score, _ in runs[trained, n]] for n in NUMBERS], ".", color=color)
ax.set(xscale="log", xlabel="number of centers", ylabel="accuracy on the test half")
ax.set_xticks(NUMBERS, NUMBERS)
ax.minorticks_off()
ax.legend(title="centers")
grid = right.subplots(4, 5)
for row, trained in ((0, False), (2, True)):
    for ax, center in zip(grid[row : row + 2].flat, runs[trained, 10][0][1], strict=True):
        ax.imshow(center.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[])
grid[0, 2].set_title("ten centers: fixed")
grid[2, 2].set_title("trained")
if arguments.picture:
    figure.savefig(arguments.picture, dpi=110)
plt.show()
