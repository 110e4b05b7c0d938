"""
Quick start
===========

Soft K-means gives every row a share of every cluster. Here are a first fit, what it finds, and what
the two estimators of this package do differently.
"""

# %%
# A fit
# -----
#
# Petals of 150 irises of three species, as a data frame. ``sigma`` is the temperature, a length in
# the unit of the data, here centimeters. Left out, it is found in the data, and so low that hardly
# any row is shared; a larger one shows more.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from sklearn_softkmeans.inspection import MembershipDisplay

iris = load_iris(as_frame=True)
X = iris.data[["petal length (cm)", "petal width (cm)"]]
soft = SoftKMeans(n_clusters=3, sigma=0.5, random_state=0).fit(X)
sparse = EntmaxKMeans(n_clusters=3, sigma=0.5, random_state=0).fit(X).align_to(soft)
found = SoftKMeans(n_clusters=3, random_state=0).fit(X)
print(f"centers:\n{soft.cluster_centers_.round(2)}")
print(f"inertia {soft.inertia_:.1f}, iterations {soft.n_iter_}")
print(f"sigma found in the data: {found.sigma_:.2f} cm")
print(f"adjusted Rand index with the species: {adjusted_rand_score(iris.target, soft.labels_):.2f}")

# %%
# Shares
# ------
#
# ``predict_proba`` gives the shares, ``predict`` the cluster with the largest. The flowers below
# are the three that softmax shares most evenly. Entmax has exact zeros, and gives most flowers one
# cluster alone.

shares = {"SoftKMeans": soft.predict_proba(X), "EntmaxKMeans": sparse.predict_proba(X)}
most_shared = np.argsort(shares["SoftKMeans"].max(axis=1))[:3]
for name, table in shares.items():
    alone = np.mean(table.max(axis=1) == 1)
    print(f"{name}: {alone:.0%} of the flowers belong to one cluster alone. The most shared:")
    print(table[most_shared].round(3))

# %%
# A picture
# ---------
#
# Every point of the plane in the mixture of the colors of its clusters. On a line the effective
# number of clusters that a point belongs to is the number written on it.

figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True, layout="constrained")
for ax, model in zip(axes, (soft, sparse), strict=True):
    MembershipDisplay.from_estimator(model, X, ax=ax)
    ax.set_title(f"{type(model).__name__}, sigma = {model.sigma:g} cm")
axes[1].set_ylabel("")
axes[1].legend(loc="lower right")

plt.show()
