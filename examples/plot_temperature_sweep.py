"""
A sweep over temperatures
=========================

The temperature sigma says how far a row looks for clusters. This script cools ten centers of
handwritten digits from one mean of all rows down to K-means, and looks at what changes on the way.
"""

# %%
# A path
# ------
#
# :func:`~sklearn_softkmeans.soft_kmeans_path` fits at each of a grid of temperatures, and starts
# each fit where the one before it ended. A pixel is a number from 0 to 16, and so is sigma.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import entr
from sklearn.datasets import load_digits

from sklearn_softkmeans import SoftKMeans, soft_kmeans_path

X = load_digits().data
path = soft_kmeans_path(X, 10, n_sigmas=30, eps=0.12, tol=1e-5)


def perplexity(centers, sigma):
    """Effective number of clusters of a row, on average."""
    shares = SoftKMeans.from_centers(centers, sigma=sigma).predict_proba(X)
    return np.exp(entr(shares).sum(axis=1)).mean()


softness = [perplexity(*pair) for pair in zip(path.centers, path.sigmas, strict=True)]
print("sigma  distinct centers  clusters of a row  inertia")
for i in range(0, len(path.sigmas), 4):
    numbers = path.sigmas[i], path.n_distinct[i], softness[i], path.inertia[i]
    print("{:5.2f}  {:16}  {:17.2f}  {:7.0f}".format(*numbers))

# %%
# What centers look like
# ----------------------
#
# Each row of pictures is a temperature, hot at the top. Centers that are one are drawn all the
# same, one beside the other.

shown = [0, 3, 6, 9, 14, 29]
figure, axes = plt.subplots(len(shown), 10, figsize=(9, 6.2), layout="constrained")
for row, i in zip(axes, shown, strict=True):
    for ax, center in zip(row, path.centers[i], strict=True):
        ax.imshow(center.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
    label = f"sigma = {path.sigmas[i]:.1f}\n{path.n_distinct[i]} distinct"
    row[0].set_ylabel(label, rotation="horizontal", ha="right", va="center", labelpad=8)

# %%
# What the numbers do
# -------------------
#
# The free energy F, which a fit minimises, lies below the inertia of the same centers, and the
# distortion weighted by shares, L, above it. All three meet as sigma falls. On the right, the
# number of centers that differ, and the number of clusters that a row belongs to: long after all
# centers are there, rows are still shared.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
for values, name, color, line in (
    (path.weighted_distortion, "weighted distortion L", "#D55E00", "--"),
    (path.inertia, "inertia", "black", "-"),
    (path.objective, "free energy F", "#0072B2", "-."),
):
    left.plot(path.sigmas, values / len(X), line, color=color, label=name)
left.set_ylabel("squared distance for each row")
right.plot(path.sigmas, path.n_distinct, "o-", color="#0072B2", markersize=4,
           label="distinct centers")  # fmt: skip
right.plot(path.sigmas, softness, "s-", color="#E69F00", markersize=4,
           label="clusters of a row")  # fmt: skip
right.set_ylabel("number of clusters")
for ax in (left, right):
    ax.set_xscale("log")
    ax.set_xticks([2, 4, 8, 16], [2, 4, 8, 16])
    ax.minorticks_off()
    ax.invert_xaxis()
    ax.set_xlabel("sigma, from hot to cold")
    ax.legend()

plt.show()
