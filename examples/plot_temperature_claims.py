"""
Errors as the temperature falls
===============================

Errors of soft K-means against K-means as the temperature falls, on six data sets: for softmax and
entmax-1.5, under scores ``-d**2 / (2 * sigma**2)``, which this package uses, and for comparison
under ``-d**2 / sigma``. ``claims_table.py`` beside this script measures the slopes over ten seeds.
"""

import matplotlib.pyplot as plt
import numpy as np
from claims_table import DATA, MAPS, SCALINGS, SIGMAS, errors, path_from_kmeans, problem

from sklearn_softkmeans.inspection import hard_sigma

COLORS = {"softmax": "#0072B2", "entmax-1.5": "#D55E00"}
LINES = dict(zip(SCALINGS, ["-", "--"], strict=True))
problems = {name: problem(name, seed=0) for name in DATA}
found = {
    (name, scores, label): (path, errors(given, path))
    for name, given in problems.items()
    for scores, sigma_of in SCALINGS.items()
    for label, alpha in MAPS.items()
    for path in [path_from_kmeans(given, alpha, sigma_of(SIGMAS))]
}


def draw(measure, text):
    """One picture: a panel for each data set, a line for each map and scaling."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), sharex=True, layout="constrained")
    for ax, name in zip(axes.flat, DATA, strict=True):
        for scores, line in LINES.items():
            for label, color in COLORS.items():
                values = found[name, scores, label][1][measure]
                drawn = values > 1e-12
                style = {"color": color, "linestyle": line, "label": f"{label}, {scores}"}
                ax.loglog(SIGMAS[drawn], values[drawn], marker=".", **style)
        certificate = hard_sigma(problems[name].X, problems[name].centers, 1.5)
        ax.axvline(certificate, color="0.5", linestyle=":", label="hard_sigma of entmax-1.5")
        ax.set_title(name)
    for ax in axes[-1]:
        ax.set_xlabel("sigma")
    figure.supylabel(text)
    axes[0, 0].legend(fontsize=8)


# %%
# Centers
# -------
#
# Left of the dotted line entmax under -d²/(2σ²) has no error at all, and its line ends. On the
# right errors need not fall with the temperature: where centers have merged, or other rows join a
# cluster, they do as they like.

draw("centers", "largest distance of a center to that of K-means")

# %%
# Responsibilities
# ----------------

draw("shares", "mean share outside the cluster of K-means")

# %%
# Free energy and weighted distortion
# -----------------------------------
#
# Both go to the inertia of K-means, F from below and L from above, and F rises on the whole way. L
# need not fall: its minimum is not what a fit looks for.

figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), sharex=True, layout="constrained")
for ax, name in zip(axes.flat, DATA, strict=True):
    given = problems[name]
    for label, color in COLORS.items():
        path, values = found[name, "-d²/(2σ²)", label]
        # Both in units of the inertia of K-means.
        free = 1.0 - values["J* − F"]
        soft = 1.0 + values["L − J*"]
        ax.semilogx(SIGMAS, free, color=color, label=f"F, {label}")
        ax.semilogx(SIGMAS, soft, color=color, linestyle="--", label=f"L, {label}")
    ax.axhline(1.0, color="0.5", linewidth=0.8)
    ax.set_ylim(-1.0, np.clip(ax.get_ylim()[1], 2.0, 4.0))
    ax.set_title(name)
for ax in axes[-1]:
    ax.set_xlabel("sigma")
figure.supylabel("in units of the inertia of K-means")
axes[0, 0].legend(fontsize=8)

plt.show()
