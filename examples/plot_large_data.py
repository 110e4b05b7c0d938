"""
Data larger than memory
=======================

Three ways to the same clusters: ``fit_blocks`` reads one block of a file after the other,
`DaskSoftKMeans` sends blocks to the workers of dask, and ``batch_size`` takes steps from random
batches. The first two are the exact fit, to rounding; the third is an approximation that needs few
passes over the data.
"""

# %%
# A file of rows
# --------------
#
# It stands for one that would not fit into memory: half a million rows, 48 MB. ``fit_blocks`` takes
# any sequence of blocks; ``fit`` itself reads maps of more than 64 MiB in this way.

import tempfile
import time
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from sklearn_softkmeans import SoftKMeans
from sklearn_softkmeans.dask import DaskSoftKMeans

folder = tempfile.TemporaryDirectory()
rows, _ = make_blobs(500_000, 12, centers=20, cluster_std=2.0, random_state=0)
rows.tofile(Path(folder.name) / "rows.bin")
X = np.memmap(Path(folder.name) / "rows.bin", np.float64, "r").reshape(-1, 12)


def blocks():
    """A new pass over the file."""
    return (X[i : i + 50_000] for i in range(0, len(X), 50_000))


# %%
# The same start for all
# ----------------------
#
# It comes from the first 5000 rows, by a fit that also compiles what the others need. The clusters
# have a standard deviation of 2, and that is sigma.

first = SoftKMeans(20, sigma=2.0, init="annealing").fit(rows[:5000])
options = {"n_clusters": 20, "sigma": 2.0, "init": first.cluster_centers_}
fits = {
    "all rows in memory": lambda: SoftKMeans(**options).fit(rows),
    "blocks of the file": lambda: SoftKMeans(**options).fit_blocks(blocks),
    "dask": lambda: DaskSoftKMeans(**options).fit(da.from_array(X, chunks=(50_000, -1))),
    "batches of 1024": lambda: SoftKMeans(**options, batch_size=1024, random_state=0).fit(X),
}
seconds, models = {}, {}
for name, fit in fits.items():
    begin = time.perf_counter()
    models[name] = fit()
    seconds[name] = time.perf_counter() - begin
exact = models["all rows in memory"]
for name, model in models.items():
    away = np.abs(model.cluster_centers_ - exact.cluster_centers_).max()
    print(f"{name}: inertia {model.inertia_:.6g}, centers at most {away:.1e} away")

# %%
# Time
# ----
#
# Blocks and tasks cost little. Batches are few rows, and then one pass labels all of them.

figure, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
bars = ax.barh(list(seconds), list(seconds.values()), color="#0072B2")
ax.bar_label(bars, fmt="%.2f s", padding=3)
ax.invert_yaxis()
ax.margins(x=0.15)
ax.set(xlabel="seconds", title="500 000 rows of 12 features, 20 clusters")
plt.show()
folder.cleanup()
