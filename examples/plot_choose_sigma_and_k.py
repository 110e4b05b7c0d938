"""
Choosing the temperature and the number of clusters
===================================================

``score`` is the log-likelihood of rows under a Gaussian mixture of equal weights at the centers,
each component as wide as sigma. On rows that were held out it rises and falls, so that
``GridSearchCV`` chooses sigma and the number of clusters without labels.
Inertia cannot do that: it falls with every further cluster.
"""

# %%
# A case with an answer
# ---------------------
#
# Six round blobs with a standard deviation of 1, some of which touch. Where there are more
# clusters than a temperature can tell apart, centers merge and the fit warns; here that is part of
# the search.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine, make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import StandardScaler

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

warnings.simplefilter("ignore", ConvergenceWarning)
FOLDS = KFold(5, shuffle=True, random_state=0)
CENTERS = [(-6, -4), (-5, 3), (-1, 1), (2, 5), (3, -3), (6, 0)]

blobs, _ = make_blobs(600, centers=CENTERS, cluster_std=1.0, random_state=0)
sigmas = np.geomspace(0.5, 2.5, 9).round(2).tolist()
grid = {"n_clusters": [2, 3, 4, 5, 6, 7, 8, 10], "sigma": sigmas}
by_sigma = GridSearchCV(SoftKMeans(init="annealing"), grid, cv=FOLDS).fit(blobs)
print(f"blobs, best on held-out rows: {by_sigma.best_params_}")

# %%
# A case without one
# ------------------
#
# The chemistry of 178 wines, standardised. ``perplexity``, the number of clusters that a row
# belongs to on average, takes the place of sigma: it has no unit, and means the same for softmax
# and entmax. A perplexity must be below the number of clusters.

wine = StandardScaler().fit_transform(load_wine().data)
grid = {"n_clusters": [2, 3, 4, 6, 8, 12, 16, 24], "perplexity": [1.02, 1.05, 1.1, 1.2, 1.4, 1.8]}
by_perplexity = {
    Model.__name__: GridSearchCV(Model(init="exchange", random_state=0), grid, cv=FOLDS).fit(wine)
    for Model in (SoftKMeans, EntmaxKMeans)
}
for name, search in by_perplexity.items():
    print(f"wine, {name}: {search.best_params_}, sigma {search.best_estimator_.sigma_:.2f}, "
          f"mean log-likelihood {search.best_score_:.2f}")  # fmt: skip

# %%
# All candidates
# --------------
#
# Log-likelihood of held-out rows, light is good. The cross marks the best. Blobs have their six
# clusters back, and nearly their standard deviation; more clusters are hardly worse, since at that
# sigma most of them merge or share a blob.
#
# Wine is no mixture of round clusters, and more of them describe it better, up to the end of the
# grid. Held-out likelihood answers how well rows are described, not how many kinds of wine there
# are. Three, the number of growers, is an island of its own at low perplexity: a best among small
# numbers. Read such a table before taking its maximum.


def heat(ax, search, parameter, depth):
    """Mean scores of a search; what is more than `depth` below the best is drawn alike."""
    values, numbers = search.param_grid[parameter], search.param_grid["n_clusters"]
    order = np.lexsort([search.cv_results_[f"param_{name}"].astype(float)
                        for name in (parameter, "n_clusters")])  # fmt: skip
    scores = search.cv_results_["mean_test_score"][order].reshape(len(numbers), len(values))
    best = np.unravel_index(scores.argmax(), scores.shape)
    image = ax.imshow(scores, cmap="cividis", vmin=scores.max() - depth, aspect="auto")
    ax.plot(best[1], best[0], "x", color="black", markersize=11, markeredgewidth=2.5)
    ax.set_xticks(range(len(values)), [f"{value:g}" for value in values])
    ax.set_yticks(range(len(numbers)), numbers)
    ax.set(xlabel=parameter, ylabel="n_clusters")
    ax.figure.colorbar(image, ax=ax, extend="min", label="held-out log-likelihood of a row")


figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
heat(axes[0], by_sigma, "sigma", depth=1.0)
axes[0].set_title("blobs, SoftKMeans")
for ax, (name, search) in zip(axes[1:], by_perplexity.items(), strict=True):
    heat(ax, search, "perplexity", depth=3.0)
    ax.set_title(f"wine, {name}")
    ax.set_ylabel("")

plt.show()
