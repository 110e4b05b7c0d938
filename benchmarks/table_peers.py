"""One iteration of other packages, over a soft one of ours."""

import numpy as np
from data import early_centers, hot_sigma, overlapping_blobs
from report import geometric_mean, number, wanted
from sklearn.mixture import GaussianMixture
from timing import alternate, iteration_seconds, ratios, seconds

from sklearn_softkmeans import EntmaxKMeans

SHAPES = [(100_000, 10, 10), (100_000, 50, 100), (20_000, 784, 10)]
FEW, MANY = 2, 12


def mixture(X, centers, sigma):
    """Seconds of an EM step of scikit-learn's mixture: what longer fits take more."""

    def make(max_iter):
        return GaussianMixture(
            len(centers),
            covariance_type="spherical",
            means_init=centers,
            precisions_init=np.full(len(centers), sigma**-2.0),
            weights_init=np.full(len(centers), 1.0 / len(centers)),
            init_params="random_from_data",
            max_iter=max_iter,
            tol=0.0,
        )

    return lambda: iteration_seconds(make, X, FEW, MANY)


def torch_step(name):
    """A soft K-means step as one writes it in PyTorch."""

    def prepare(X, centers, sigma):
        import entmax
        import torch

        chosen = torch.softmax if name == "softmax" else getattr(entmax, name)
        X, centers = torch.from_numpy(X), torch.from_numpy(centers.astype(X.dtype))

        def step():
            scores = (X @ centers.T - 0.5 * (centers * centers).sum(1)) / sigma**2
            resp = chosen(scores, dim=1)
            return (resp.T @ X) / resp.sum(0)[:, None]

        return lambda: seconds(step)

    return prepare


def scikit_fuzzy(X, centers, sigma):
    from skfuzzy.cluster._cmeans import _cmeans0

    memberships = np.random.default_rng(0).dirichlet(np.ones(len(centers)), len(X)).T
    return lambda: seconds(lambda: _cmeans0(X.T, memberships, len(centers), 2.0, "euclidean"))


def fuzzy_c_means(X, centers, sigma):
    from fcmeans import FCM

    def make(max_iter):
        model = FCM(n_clusters=len(centers), max_iter=max_iter, error=1e-9, random_state=0)
        return lambda: model.fit(X)

    return lambda: (seconds(make(MANY)) - seconds(make(FEW))) / (MANY - FEW)


def faiss_kmeans(X, centers, sigma):
    """A hard step of faiss, which has single precision alone."""
    import faiss

    X, centers = X.astype(np.float32), centers.astype(np.float32)

    def fit(max_iter):
        options = {"niter": max_iter, "max_points_per_centroid": len(X), "gpu": False}
        faiss.Kmeans(X.shape[1], len(centers), **options).train(X, init_centroids=centers)

    return lambda: (seconds(lambda: fit(MANY)) - seconds(lambda: fit(FEW))) / (MANY - FEW)


def scikit_learn_intelex(X, centers, sigma):
    """A hard step of the extension for scikit-learn."""
    from sklearnex.cluster import KMeans

    def make(max_iter):
        return KMeans(len(centers), init=centers, n_init=1, max_iter=max_iter, tol=0.0)

    return lambda: iteration_seconds(make, X, FEW, MANY)


# Name, what prepares its measurement, and alpha of ours.
PEERS = [
    ("GaussianMixture spherical", mixture, 1.0),
    ("PyTorch softmax", torch_step("softmax"), 1.0),
    ("PyTorch, entmax15 of entmax", torch_step("entmax15"), 1.5),
    ("scikit-fuzzy", scikit_fuzzy, 1.0),
    ("fuzzy-c-means", fuzzy_c_means, 1.0),
    ("faiss, K-means", faiss_kmeans, 1.0),
    ("scikit-learn-intelex, K-means", scikit_learn_intelex, 1.0),
]


def ours(X, centers, sigma, alpha):
    def make(max_iter):
        options = {"init": centers, "sigma": sigma, "tol": 0.0, "solver": "em"}
        return EntmaxKMeans(len(centers), alpha, max_iter=max_iter, **options)

    return lambda: iteration_seconds(make, X, FEW, MANY)


def write(report, args):
    report.title("One iteration of others, over a soft one of ours")
    report.line("Hot: the mean perplexity of a row is half the number of clusters.\n")
    report.head("peer, n × d, k, dtype", "ours, ms", "theirs, ms", "theirs / ours")
    for name, prepare, alpha in PEERS:
        means = []
        for n_samples, n_features, n_clusters in SHAPES:
            for dtype in ["float32", "float64"]:
                label = f"{name}, {n_samples}x{n_features}, {n_clusters}, {dtype}"
                if not wanted(label, args.rows):
                    continue
                size = n_samples // 50 if args.quick else n_samples
                X = overlapping_blobs(size, n_features, n_clusters, dtype)
                centers = early_centers(X, n_clusters)
                sigma = hot_sigma(X, centers, alpha)
                try:
                    theirs = prepare(X, centers, sigma)
                except ImportError:
                    continue
                sides = [ours(X, centers, sigma, alpha), theirs]
                alternate(1, *sides)  # warms up
                times = alternate(max(args.repeats // 2, 1), *sides)
                ms = 1e3 * np.median(times, axis=0)
                means.append(np.median(ratios(times)))
                report.row(label, *map(number, ms), number(means[-1]))
        if means:
            report.row(f"geometric mean, {name}", "", "", number(geometric_mean(means)))
