"""
Beside K-means
==============

`SoftKMeans` and `EntmaxKMeans` take the place of scikit-learn's ``KMeans``: the same parameters and
attributes, and at ``sigma=0`` the same result. What is new are the shares, and what they cost is
time: K-means stops when no label changes, while centers with shares go on moving.
"""

# %%
# Labels
# ------
#
# All from the same initial centers. At ``sigma=0`` labels and centers are those of K-means. Soft
# fits may end at another of its many local solutions: here at one of lower inertia.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

X = load_digits().data
start = X[:: len(X) // 10][:10]
models = {
    "KMeans": KMeans(10, init=start, n_init=1, tol=0),
    "SoftKMeans, sigma=0": SoftKMeans(10, init=start, sigma=0, tol=0),
    "SoftKMeans": SoftKMeans(10, init=start),
    "EntmaxKMeans": EntmaxKMeans(10, init=start),
}
hard = models["KMeans"].fit(X)
for name, model in models.items():
    same = np.mean(model.fit(X).labels_ == hard.labels_)
    print(f"{name}: inertia {model.inertia_:.0f}, {same:.2%} of the labels are those of KMeans")
away = np.abs(models["SoftKMeans, sigma=0"].cluster_centers_ - hard.cluster_centers_).max()
print(f"centers at sigma=0 and those of KMeans: at most {away:.0e} apart")

# %%
# Time
# ----
#
# The fastest of five fits each, after a first one that may compile.


def seconds(model):
    """The fastest of five fits."""
    found = []
    for _ in range(5):
        begin = time.perf_counter()
        model.fit(X)
        found.append(time.perf_counter() - begin)
    return min(found)


times = {f"{name}\n{model.n_iter_} iterations": seconds(model) for name, model in models.items()}
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bars = ax.barh(list(times), [1e3 * value for value in times.values()], color="#0072B2")
ax.bar_label(bars, fmt="%.1f ms", padding=3)
ax.invert_yaxis()
ax.margins(x=0.15)
ax.set(xlabel="milliseconds for a fit", title="1797 digits of 64 pixels, 10 clusters")
plt.show()
