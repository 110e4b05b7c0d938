"""
Who belongs where
=================

Regions of the plane colored by responsibilities. Softmax shares every point with every cluster,
however little; entmax shares only those between clusters, and the stripe in which it does has sharp
edges.
"""

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from sklearn_softkmeans.inspection import MembershipDisplay

# %%
# Softmax and entmax at one temperature
# -------------------------------------
#
# Lines are those of equal perplexity, the effective number of clusters a point belongs to. Moons
# and circles are no clusters of K-means, soft or hard: it cuts them in two.

DATA = {
    "blobs": (4, make_blobs(300, centers=4, cluster_std=1.3, random_state=3)[0], 1.4),
    "moons": (2, make_moons(300, noise=0.08, random_state=0)[0], 0.4),
    "circles": (3, make_circles(300, factor=0.5, noise=0.06, random_state=0)[0], 0.3),
}
figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
for column, (name, (n_clusters, X, sigma)) in zip(axes.T, DATA.items(), strict=True):
    start = KMeans(n_clusters, n_init=5, random_state=0).fit(X).cluster_centers_
    for ax, Model in zip(column, (SoftKMeans, EntmaxKMeans), strict=True):
        model = Model(n_clusters, sigma=sigma, init=start).fit(X)
        MembershipDisplay.from_estimator(model, X, ax=ax)
        ax.set_title(f"{Model.__name__}, {name}, sigma = {sigma}")

# %%
# The order of entmax
# -------------------
#
# The same centers at the same temperature: the larger alpha, the narrower the stripe of shared
# points. At alpha = 1.5 it ends where the squared distances to the nearest two centers differ by
# 4 sigma squared.

_, X, sigma = DATA["blobs"]
centers = EntmaxKMeans(4, n_init=5, random_state=0).fit(X).cluster_centers_
figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
for ax, alpha in zip(axes, (1.0, 1.5, 2.0), strict=True):
    model = EntmaxKMeans.from_centers(centers, sigma=sigma, alpha=alpha)
    MembershipDisplay.from_estimator(model, X, kind="perplexity", ax=ax)
    ax.set_title(f"alpha = {alpha:g}, sigma = {sigma}")
for ax in axes[1:]:
    ax.set_ylabel("")

plt.show()
