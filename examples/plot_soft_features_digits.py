"""
Shares as features for a classifier
===================================

The shares of clusters can be the features of a linear classifier, in a ``Pipeline`` whose
parameters ``GridSearchCV`` chooses. Here they compete on handwritten digits with features that
scikit-learn makes: labels of K-means one-hot, distances to centers of K-means, and random Fourier
features.
"""

# %%
# The contest
# -----------
#
# Every map gets 10, 20 or 40 features, and every classifier is the same logistic regression. Half
# of the digits train, with three folds to choose the temperature, or the width of the Fourier
# features; the other half test. ``SoftKMeans`` at ``sigma=0`` is K-means and its
# shares are one-hot labels. The temperature is set by ``perplexity``, the number of clusters that a
# row belongs to on average.

import warnings

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, stratify=y, random_state=0
)
NUMBERS = [10, 20, 40]
PERPLEXITIES = [1.2, 2, 4]


def searches(n):
    """What makes n features, and the values tried of its own parameter."""
    options = {"n_clusters": n, "random_state": 0}
    return {
        "K-means, one-hot": (SoftKMeans(sigma=0, **options), {}),
        "K-means, distances": (KMeans(**options), {}),
        "random Fourier": (RBFSampler(n_components=n, random_state=0),
                           {"gamma": [0.01, 0.03, 0.1]}),
        "SoftKMeans, shares": (SoftKMeans(**options), {"perplexity": PERPLEXITIES}),
        "EntmaxKMeans, shares": (EntmaxKMeans(**options), {"perplexity": PERPLEXITIES}),
    }  # fmt: skip


def search(features, grid):
    """The best pipeline, fitted to the training half."""
    steps = make_pipeline(features, StandardScaler(), LogisticRegression(max_iter=300))
    name = steps.steps[0][0]
    grid = {f"{name}__{parameter}": values for parameter, values in grid.items()}
    with warnings.catch_warnings():
        # A perplexity out of reach with few clusters is a candidate like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        with threadpool_limits(1):  # products of arrays this small lose by more
            return GridSearchCV(steps, grid, cv=3).fit(X_train, y_train)


pixels = LogisticRegression(max_iter=300).fit(X_train, y_train).score(X_test, y_test)
accuracies = {}
for n in NUMBERS:
    for name, (features, grid) in searches(n).items():
        found = search(features, grid)
        accuracies.setdefault(name, []).append(found.score(X_test, y_test))
        print(f"{n:3} {name:21} {accuracies[name][-1]:.3f}  {found.best_params_}")
print(f"all 64 pixels, no clusters: {pixels:.3f}")

# %%
# Accuracy on the test half
# -------------------------
#
# A share says more than a label: both soft maps are ahead of the one-hot labels at every number of
# features. They do not win. Distances to the centers of K-means are the best features throughout,
# and with 40 features random ones are level with the better of the soft maps. What shares have
# instead is that a person can read them: each is a part of a whole.

STYLES = dict(
    zip(accuracies, [("#E69F00", "s:"), ("#009E73", "^-."), ("#CC79A7", "D--"), ("#0072B2", "o-"),
                     ("#D55E00", "X-")], strict=True)
)  # fmt: skip
figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
for name, values in accuracies.items():
    color, style = STYLES[name]
    ax.plot(NUMBERS, values, style, color=color, label=name)
ax.axhline(pixels, color="0.4", linewidth=1, label="all 64 pixels")
ax.set(xscale="log", xlabel="number of features", ylabel="accuracy on the test half")
ax.set_xticks(NUMBERS, NUMBERS)
ax.minorticks_off()
ax.legend(loc="lower right")

plt.show()
