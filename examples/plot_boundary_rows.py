"""
Outliers, and rows between clusters
===================================

Two kinds of rows deserve a second look, and K-means marks neither. A row *between* clusters is
shared by several: the perplexity of its shares, the number of clusters that it belongs to, is well
above one. An *outlier* is far from all of them: its log-likelihood, ``score_samples``, is low.
Neither implies the other. An outlier far out on the side of one cluster is not shared at all.
"""

# %%
# Rows with both
# --------------
#
# Three clusters, twenty rows scattered over a wider square. `perplexity` is a parameter of the fit
# as well: the mean of it over all rows.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import entr
from sklearn.datasets import make_blobs

from sklearn_softkmeans import SoftKMeans

X, _ = make_blobs(600, centers=[[-4, 0], [4, 0], [0, 6]], cluster_std=1.3, random_state=0)
X = np.concatenate([X, np.random.RandomState(1).uniform([-12, -8], [12, 15], size=(20, 2))])
model = SoftKMeans(n_clusters=3, init="annealing").fit(X)
perplexity = np.exp(entr(model.predict_proba(X)).sum(axis=1))
log_likelihood = model.score_samples(X)
between = perplexity > 1.5
outlier = log_likelihood < np.quantile(log_likelihood, 0.03)
print(f"sigma found in the data: {model.sigma_:.2f}")
print(
    f"{between.sum()} rows between clusters, {outlier.sum()} outliers, "
    f"{(between & outlier).sum()} both"
)
print(f"of the outliers {np.mean(np.flatnonzero(outlier) >= 600):.0%} are scattered rows")

# %%
# In the plane
# ------------

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained")
panels = [
    ("Clusters that a row belongs to", perplexity, between, "between clusters"),
    ("Log-likelihood", log_likelihood, outlier, "outliers: the lowest 3 %"),
]
for ax, (title, values, marked, name) in zip(axes, panels, strict=True):
    low, high = np.quantile(values, [0.02, 1.0])
    points = ax.scatter(*X.T, c=values, s=12, cmap="cividis", vmin=low, vmax=high)
    ax.scatter(*X[marked].T, s=50, facecolors="none", edgecolors="#D55E00", label=name)
    ax.scatter(*model.cluster_centers_.T, marker="X", s=90, c="white", edgecolors="black")
    ax.set(title=title, aspect="equal")
    ax.legend(loc="lower right")
    figure.colorbar(points, ax=ax, shrink=0.8)
plt.show()
