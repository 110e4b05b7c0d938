"""
One run instead of ten: the tree of annealing
=============================================

K-means depends on its start, and the usual remedy is to run it several times. With
``init="annealing"`` there is a single run: it begins with one center at the mean and cools. Where a
cluster varies more than sigma along some direction, its center stands for two and is split. The
tree shows one coordinate of the centers, from hot on the left to cold on the right, until there are
twice as many as asked for; those of least use are then taken away.

Fifty clusters in the plane are more than ten runs of K-means find.
"""

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from sklearn_softkmeans import SoftKMeans
from sklearn_softkmeans.inspection import AnnealingDisplay

X, _ = make_blobs(3000, n_features=2, centers=50, cluster_std=0.5, random_state=0)

ten_runs = KMeans(50, n_init=10, random_state=0).fit(X)
models = {
    "k-means++": SoftKMeans(50, sigma=0, random_state=0).fit(X),
    "exchange": SoftKMeans(50, sigma=0, init="exchange", random_state=0).fit(X),
    "annealing": SoftKMeans(50, sigma=0, init="annealing").fit(X),
}
print(f"{'KMeans, ten runs':16}  inertia {ten_runs.inertia_:.0f}")
for init, model in models.items():
    print(f"{init:16}  inertia {model.inertia_:.0f}")

# %%
# The tree of eight of the clusters, and where the centers of both end among all of them. A center
# that two clusters share, and two centers in one, are what a local minimum of K-means looks like.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
few, _ = make_blobs(500, n_features=2, centers=8, cluster_std=0.6, random_state=4)
AnnealingDisplay.from_data(few, 8, ax=left)
left.set_title("eight clusters, as they cool")

right.scatter(*X.T, s=3, color="0.75", linewidths=0)
right.plot(*ten_runs.cluster_centers_.T, "o", markersize=9, fillstyle="none", color="#D55E00",
           label=f"KMeans, best of ten: inertia {ten_runs.inertia_:.0f}")  # fmt: skip
right.plot(*models["annealing"].cluster_centers_.T, "x", markersize=6, color="#0072B2",
           label=f"annealing: inertia {models['annealing'].inertia_:.0f}")  # fmt: skip
right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=2, frameon=False)
right.set_title("fifty clusters")
right.set_xticks([])
right.set_yticks([])
plt.show()
