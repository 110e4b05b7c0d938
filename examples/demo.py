"""KMeans, SoftKMeans and EntmaxKMeans on scikit-learn's handwritten digits.

Prints Markdown tables and draws the centers with the memberships of ambiguous digits.
"""

import argparse
import platform
import time
import warnings

import numba
import numpy as np
import sklearn
from matplotlib.figure import Figure
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import sklearn_softkmeans
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

N_CLUSTERS = 10
# A row is soft if its largest responsibility is below this, hard if it is exactly 1.
SOFT = 0.99
SIGMAS_OF_THE_ROAD = [16, 8, 6, 4, 2, 1, 0.5, 0]
# Blue and orange of Okabe and Ito, told apart by colour-blind readers and in grey.
COLORS = ["#0072B2", "#E69F00"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", default="demo.png", help="file to draw to (demo.png)")
    picture = parser.parse_args().picture
    # Data this small gain nothing from threads, and on a busy machine seconds would mean nothing.
    numba.set_num_threads(1)
    with threadpool_limits(1):
        demonstrate(picture)


def demonstrate(picture):
    begin = time.perf_counter()
    X, y = load_digits(return_X_y=True)
    print_setting(X)
    start, _ = kmeans_plusplus(X, N_CLUSTERS, random_state=0)
    from_start = {
        "KMeans": KMeans(N_CLUSTERS, init=start, n_init=1),
        "SoftKMeans": SoftKMeans(N_CLUSTERS, init=start),
        "EntmaxKMeans": EntmaxKMeans(N_CLUSTERS, init=start),
    }
    compare(from_start, X, y)
    show_road(from_start["KMeans"].cluster_centers_, X)
    classify(X, y)
    draw(from_start["EntmaxKMeans"], X, y, picture)
    print(f"{picture} shows the centers and the memberships of ambiguous digits.")
    print(f"All of this took {time.perf_counter() - begin:.0f} s.")


def print_setting(X):
    print(
        f"{X.shape[0]} digits of {X.shape[1]} pixels, {N_CLUSTERS} clusters. "
        f"sklearn_softkmeans {sklearn_softkmeans.__version__}, "
        f"scikit-learn {sklearn.__version__}, "
        f"Python {platform.python_version()}, one thread.\n"
    )


# ------------------------------------------------------------------------------ comparison


def compare(from_start, X, y):
    first_fits = {name: seconds_to_fit(model, X) for name, model in from_start.items()}
    print("### Side by side, from the same initial centers\n")
    print_table([describe(name, model, X, y) for name, model in from_start.items()])
    print(
        "\nInertia, ARI and NMI judge the labels, the last two against the digits written.\n"
        f"Soft rows have a largest responsibility below {SOFT}, hard rows one of exactly 1\n"
        "(SoftKMeans: after rounding). Seconds are the fastest of five fits. The first took\n"
        + ", ".join(f"{seconds:.2f} s ({name})" for name, seconds in first_fits.items())
        + ":\neach compiles what those before it have not, or loads what an earlier run compiled.\n"
    )
    print("### Side by side, the best of ten starts of their own\n")
    print_table(
        describe(type(model).__name__, model, X, y)
        for model in (
            KMeans(N_CLUSTERS, n_init=10, random_state=0),
            SoftKMeans(N_CLUSTERS, n_init=10, random_state=0),
            EntmaxKMeans(N_CLUSTERS, n_init=10, random_state=0),
        )
    )
    print()


def describe(name, model, X, y):
    """One row of the comparison."""
    seconds = min(seconds_to_fit(model, X) for _ in range(5))
    largest = largest_responsibilities(model, X)
    return {
        "model": name,
        "sigma": "-" if isinstance(model, KMeans) else f"{model.sigma_:.2f}",
        "inertia": f"{model.inertia_:.0f}",
        "ARI": f"{adjusted_rand_score(y, model.labels_):.3f}",
        "NMI": f"{normalized_mutual_info_score(y, model.labels_):.3f}",
        "soft rows": percent(largest < SOFT),
        "hard rows": percent(largest == 1),
        "iterations": model.n_iter_,
        "seconds": f"{seconds:.3f}",
    }


def seconds_to_fit(model, X):
    begin = time.perf_counter()
    model.fit(X)
    return time.perf_counter() - begin


def largest_responsibilities(model, X):
    if isinstance(model, KMeans):
        return np.ones(len(X))
    return model.predict_proba(X).max(axis=1)


# ------------------------------------------------------------------------ road to K-means


def show_road(kmeans_centers, X):
    print(
        "### The road to K-means\n\n"
        "Both start from the centers that KMeans found; the distance is that of the center\n"
        "which ends furthest from its start. F is the free energy that a fit minimises.\n"
    )
    for Model in (SoftKMeans, EntmaxKMeans):
        print(f"{Model.__name__}:\n")
        print_table(travel(Model, sigma, kmeans_centers, X) for sigma in SIGMAS_OF_THE_ROAD)
        print()


def travel(Model, sigma, kmeans_centers, X):
    """One row of the road."""
    model = Model(N_CLUSTERS, sigma=sigma, init=kmeans_centers, max_iter=1000)
    with warnings.catch_warnings():
        # Centers that merge at high sigma are what the table is about.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    distances = np.linalg.norm(model.cluster_centers_ - kmeans_centers, axis=1)
    return {
        "sigma": sigma,
        "distinct centers": model.n_distinct_clusters_,
        "soft rows": percent(largest_responsibilities(model, X) < SOFT),
        "F": f"{model.objective_:.2f}",
        "inertia": f"{model.inertia_:.2f}",
        "distance to KMeans": f"{distances.max():.2g}",
    }


# -------------------------------------------------------------- memberships as features


def classify(X, y):
    print(
        "### Memberships as features\n\n"
        "StandardScaler, EntmaxKMeans and LogisticRegression in a Pipeline. GridSearchCV with\n"
        "five folds on 70 % of the digits picks the parameters, the other 30 % are the test.\n"
        "At sigma=0 the features are the one-hot labels of K-means. Pixels do without clusters.\n"
    )
    clusters = EntmaxKMeans(random_state=0)
    numbers = {"entmaxkmeans__n_clusters": [50, 100, 200]}
    hard = {**numbers, "entmaxkmeans__sigma": [0]}
    soft = {**numbers, "entmaxkmeans__sigma": [1, 2, 3]}
    print_table(
        [
            search("pixels", [], {"logisticregression__C": [0.1, 1, 10]}, X, y),
            search("hard memberships", [clusters], hard, X, y),
            search("soft memberships", [clusters], soft, X, y),
        ]
    )
    print()


def search(features, steps, grid, X, y):
    """One row: the best of a grid of pipelines."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), *steps, LogisticRegression(C=10, max_iter=2000))
    begin = time.perf_counter()
    with warnings.catch_warnings():
        # Merged or unfinished centers are features all the same: the search judges them.
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = GridSearchCV(pipeline, grid, cv=5).fit(X_train, y_train)
    parameters = [f"{key.split('__')[1]}={value}" for key, value in best.best_params_.items()]
    return {
        "features": features,
        "best parameters": ", ".join(parameters),
        "cross-validation": f"{best.best_score_:.3f}",
        "test": f"{best.score(X_test, y_test):.3f}",
        "candidates": len(best.cv_results_["params"]),
        "seconds": f"{time.perf_counter() - begin:.1f}",
    }


# --------------------------------------------------------------------------------- picture


def draw(model, X, y, path, n_rows=5):
    """Centers on top; below each, its share in ambiguous digits under both maps."""
    centers, sigma = model.cluster_centers_, 2 * model.sigma_
    shares = {
        "softmax (SoftKMeans)": SoftKMeans.from_centers(centers, sigma=sigma).predict_proba(X),
        "entmax (EntmaxKMeans)": EntmaxKMeans.from_centers(centers, sigma=sigma).predict_proba(X),
    }
    *_, entmax = shares.values()
    rows = ambiguous_rows(entmax, y, n_rows)
    figure = Figure(figsize=(9.6, 8.4), dpi=100)
    grid = figure.add_gridspec(
        n_rows + 1,
        N_CLUSTERS + 2,
        width_ratios=[1.1, 0.45, *[1] * N_CLUSTERS],
        height_ratios=[1.1, *[1] * n_rows],
        left=0.02, right=0.985, top=0.865, bottom=0.03, wspace=0.0, hspace=0.34,
    )  # fmt: skip
    draw_centers(figure, grid, model, y)
    for line, row in enumerate(rows, start=1):
        image = figure.add_subplot(grid[line, 0])
        show_image(image, X[row], f"written: {y[row]}")
        bars = figure.add_subplot(grid[line, 2:])
        draw_shares(bars, {name: share[row] for name, share in shares.items()})
    figure.suptitle(
        f"Shares of ten clusters in ambiguous digits (same centers, sigma = {sigma:.2f})",
        y=0.985,
        fontsize=13,
    )
    handles, names = bars.get_legend_handles_labels()
    figure.legend(
        handles, names, loc="upper center", bbox_to_anchor=(0.5, 0.958), ncols=2, frameon=False
    )
    figure.savefig(path)


def ambiguous_rows(share, y, n_rows):
    """The rows with the smallest largest share, at most one of each written digit."""
    order = np.argsort(share.max(axis=1), kind="stable")
    _, first = np.unique(y[order], return_index=True)
    return order[np.sort(first)[:n_rows]]


def draw_centers(figure, grid, model, y):
    for j, center in enumerate(model.cluster_centers_):
        digits, counts = np.unique(y[model.labels_ == j], return_counts=True)
        title = f"cluster {j}\nmostly {digits[counts.argmax()]}"
        show_image(figure.add_subplot(grid[0, 2 + j]), center, title)


def show_image(axes, pixels, title):
    axes.imshow(pixels.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    axes.set_title(title, fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])


def draw_shares(axes, shares):
    """Bars of both maps side by side, one pair for each cluster with a share worth a label."""
    for side, color, (name, share) in zip((-0.2, 0.2), COLORS, shares.items(), strict=True):
        (shown,) = np.nonzero(share >= 0.005)
        bars = axes.bar(shown + side, share[shown], width=0.36, color=color, label=name)
        labels = [f"{value:.2f}".lstrip("0") for value in share[shown]]
        axes.bar_label(bars, labels, fontsize=7.5, padding=1)
    axes.set_xlim(-0.5, N_CLUSTERS - 0.5)
    axes.set_ylim(0, 1)
    axes.set_xticks(np.arange(N_CLUSTERS + 1) - 0.5, labels=[])
    axes.set_yticks([0, 0.5, 1])
    axes.tick_params(labelsize=8, length=0)
    axes.grid(axis="x", color="0.85", linewidth=0.8)
    axes.set_axisbelow(True)


# ---------------------------------------------------------------------------------- tables


def percent(flags):
    return f"{100 * np.mean(flags):.1f} %"


def print_table(rows):
    """Print dictionaries of equal keys as an aligned Markdown table, first column to the left."""
    rows = [{key: str(value) for key, value in row.items()} for row in rows]
    widths = {key: max(len(key), *(len(row[key]) for row in rows)) for key in rows[0]}
    first = next(iter(widths))

    def line(cells):
        return "| " + " | ".join(cells) + " |"

    def align(text, key):
        return text.ljust(widths[key]) if key == first else text.rjust(widths[key])

    print(line(align(key, key) for key in widths))
    print(line("-" * w if key == first else "-" * (w - 1) + ":" for key, w in widths.items()))
    for row in rows:
        print(line(align(row[key], key) for key in widths))


if __name__ == "__main__":
    main()
