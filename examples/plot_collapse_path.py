"""
From one center to K-means
==========================

At a high temperature all centers of soft K-means are one, the mean of the rows. As the temperature
falls they part, step by step, and end at the centers of K-means. :func:`soft_kmeans_path` follows
them, and :class:`CollapsePathDisplay` draws what it found.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris, make_blobs

from sklearn_softkmeans import soft_kmeans_path
from sklearn_softkmeans.inspection import CollapsePathDisplay, critical_sigma, hard_sigma

# %%
# Trajectories
# ------------
#
# Five blobs in the plane. The path begins above the critical temperature, at the ring in the
# middle. First the centers part along the longest axis of the data; each part then splits along its
# own. Entmax takes nearly the same way at higher temperatures: at an equal sigma it is harder.

CENTERS = [(-7, -3), (-5, 2), (4, 6), (7, 1), (2, -6)]
X, _ = make_blobs(500, centers=CENTERS, cluster_std=1.2, random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
for ax, (name, alpha) in zip(axes, {"softmax": 1.0, "entmax-1.5": 1.5}.items(), strict=True):
    path = soft_kmeans_path(X, 5, alpha=alpha)
    CollapsePathDisplay.from_path(path, X, ax=ax)
    ax.set_title(f"{name}, critical sigma {critical_sigma(X, 5, alpha):.2f}")

# %%
# Bifurcations
# ------------
#
# Iris, its first principal component against the temperature. One center becomes two at the
# critical temperature, and one of these becomes two where it reaches the critical temperature of
# its own part of the data.

X = load_iris().data
paths = {alpha: soft_kmeans_path(X, 3, alpha=alpha, n_sigmas=120, tol=1e-9) for alpha in (1.0, 1.5)}
figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), sharey=True, layout="constrained")
for ax, (alpha, path) in zip(axes, paths.items(), strict=True):
    display = CollapsePathDisplay.from_path(path, X, kind="bifurcation", ax=ax)
    style = {"color": "0.4", "linestyle": "--", "linewidth": 1}
    ax.axvline(critical_sigma(X, 3, alpha), label="critical sigma", **style)
    if alpha > 1:
        certificate = hard_sigma(X, path.centers[-1], alpha)
        ax.axvline(certificate, label="all rows hard", color="0.4", linestyle=":")
    ax.set_title(f"alpha = {alpha:g}")
    ax.legend(loc="center left")
axes[1].set_ylabel("")

# %%
# How close to K-means?
# ---------------------
#
# The error of softmax falls faster than any power once it is below the smallest gap between a
# row's two nearest centers. That of entmax ends: below the certificate of
# :func:`~sklearn_softkmeans.inspection.hard_sigma` it is exactly zero, and is not drawn. The slopes
# of straight lines in this picture depend on where they are fitted.

figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
for (alpha, path), name in zip(paths.items(), ["softmax", "entmax-1.5"], strict=True):
    CollapsePathDisplay.from_path(path, X, kind="error", name=name, ax=ax)
ax.axvline(certificate, color="0.4", linestyle=":", label="entmax-1.5 is K-means below")
ax.set_title("Iris, three clusters")
ax.legend(loc="lower right")

plt.show()
