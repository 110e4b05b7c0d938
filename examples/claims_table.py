"""What is said of soft K-means at low temperature, measured on six data sets and ten seeds.

Prints Markdown tables: `make claims`, or `python examples/claims_table.py --help`. The page
doc/claims.md sets claims beside these numbers.
"""

import argparse
import time
import warnings
from typing import NamedTuple

import numpy as np
from scipy.special import lambertw, softmax
from sklearn import datasets
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import StandardScaler

from sklearn_softkmeans import (
    EntmaxKMeans,
    SoftKMeans,
    objective_and_gradient,
    soft_kmeans_path,
)
from sklearn_softkmeans.inspection import hard_sigma
from sklearn_softkmeans.projections import entmax

N_SAMPLES = 400
SIGMAS = np.geomspace(1.0, 0.01, 25)
MAPS = {"softmax": 1.0, "entmax-1.5": 1.5}
# The temperature sigma of scores -d^2 / (2 sigma^2) that gives those of the second scaling.
SCALINGS = {"-d²/(2σ²)": lambda sigma: sigma, "-d²/σ": lambda sigma: np.sqrt(sigma / 2.0)}
# A slope is fitted to values above rounding and well below the largest.
ROUNDING, SMALL = 1e-7, 0.3


class Problem(NamedTuple):
    X: np.ndarray
    centers: np.ndarray  # of K-means
    n_clusters: int


# ------------------------------------------------------------------------------------ data


def spirals(seed):
    """Two arms of a spiral, half a turn apart."""
    rng = np.random.RandomState(seed)
    angle = np.sqrt(rng.uniform(size=N_SAMPLES)) * 3.0 * np.pi
    side = rng.randint(2, size=N_SAMPLES) * np.pi
    arm = angle[:, None] * np.column_stack([np.cos(angle + side), np.sin(angle + side)])
    return arm + 0.5 * rng.normal(size=(N_SAMPLES, 2))


DATA = {  # name: (number of clusters, rows of a seed)
    "blobs": (3, lambda seed: datasets.make_blobs(N_SAMPLES, centers=3, random_state=seed)[0]),
    "moons": (2, lambda seed: datasets.make_moons(N_SAMPLES, noise=0.1, random_state=seed)[0]),
    "spirals": (2, spirals),
    "circles": (
        2,
        lambda seed: datasets.make_circles(N_SAMPLES, factor=0.5, noise=0.05, random_state=seed)[0],
    ),
    "digits": (10, lambda seed: datasets.load_digits().data),
    "wine": (3, lambda seed: datasets.load_wine().data),
}


def problem(name, seed):
    """Rows, and the centers of one run of K-means to its end.

    Features have equal variances, of a sum of 2, so that distances are alike in all data. Of digits
    and wine a seed draws the start, of the others the rows too.
    """
    n_clusters, rows = DATA[name]
    X = StandardScaler().fit_transform(rows(seed))
    X *= np.sqrt(2.0 / X.var(axis=0).sum())
    centers = KMeans(n_clusters, n_init=1, tol=0, max_iter=1000, random_state=seed).fit(X)
    return Problem(X, centers.cluster_centers_, n_clusters)


# -------------------------------------------------------------------------------- measures


def path_from_kmeans(given, alpha, sigmas):
    """The path up from the centers of K-means."""
    with warnings.catch_warnings():
        # Close to where centers merge, convergence is slow, and errors are of the order of 1.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return soft_kmeans_path(
            given.X,
            given.n_clusters,
            alpha=alpha,
            sigmas=sigmas,
            direction="heating",
            init=given.centers,
            tol=1e-9,
        )


def errors(given, path):
    """How far a path is from K-means, each an array over the temperatures."""
    inertia = ((given.X - given.centers[labels(given)]) ** 2).sum()
    return {
        "centers": np.linalg.norm(path.centers - given.centers, axis=2).max(axis=1),
        "shares": shared(given, path.centers, path),
        "shares, fixed": shared(given, [given.centers] * len(path.sigmas), path),
        "J* − F": (inertia - path.objective) / inertia,
        "L − J*": (path.weighted_distortion - inertia) / inertia,
    }


def labels(given):
    return sq_distances(given.X, given.centers).argmin(axis=1)


def shared(given, centers, path):
    """Mean share of a row that is not with its cluster in K-means, at each temperature."""
    rows, own = np.arange(len(given.X)), labels(given)
    return np.array(
        [
            1.0 - responsibilities(given.X, at, sigma, path.alpha)[rows, own].mean()
            for at, sigma in zip(centers, path.sigmas, strict=True)
        ]
    )


def responsibilities(X, centers, sigma, alpha):
    model = EntmaxKMeans.from_centers(centers, sigma=sigma, alpha=alpha)
    return model.predict_proba(X)


def sq_distances(X, centers):
    return pairwise_distances(X, centers) ** 2


def slope(sigmas, values):
    """Slope of log values against log sigma where values are small but no rounding errors."""
    used = (values > ROUNDING) & (values <= SMALL * values.max())
    if used.sum() < 3:
        return np.nan
    return np.polyfit(np.log(sigmas[used]), np.log(values[used]), 1)[0]


def never_rises(values):
    """Whether values do not rise from high temperature to low, but for rounding errors."""
    return bool((np.diff(values) <= ROUNDING * np.abs(values).max()).all())


# ---------------------------------------------------------------------------------- tables


def slopes_table(names, n_seeds):
    title(
        "Slopes of errors against σ",
        "Along the path up from the centers of K-means, with inertia J*: the largest distance of a "
        "center to that of K-means, the mean share of a row outside its cluster in K-means (fixed: "
        "at the centers of K-means instead), and both losses. "
        "Log-log slope, fitted to errors between rounding and .3 of the largest: the median of "
        f"{n_seeds} seeds, and the smallest and largest in brackets. 25 σ from 1 to .01, X of a "
        "total variance of 2. A dash where fewer than three errors are in that range.",
    )
    measures = ["centers", "shares", "shares, fixed", "J* − F", "L − J*"]
    head("data", "scores", "map", *measures)
    for name in names:
        problems = [problem(name, seed) for seed in range(n_seeds)]
        for scores, sigma_of in SCALINGS.items():
            for label, alpha in MAPS.items():
                found = []
                for given in problems:
                    path = path_from_kmeans(given, alpha, sigma_of(SIGMAS))
                    values = errors(given, path)
                    found.append([slope(SIGMAS, values[measure]) for measure in measures])
                row(name, scores, label, *map(spread, np.transpose(found)))


def monotone_table(names, n_seeds):
    title(
        "What is monotone as σ falls",
        f"In how many of {n_seeds} seeds. At the fixed centers of K-means F rises and L falls; "
        "on the path the centers move too.",
    )
    columns = ["F, fixed", "L, fixed", "center error", "shares", "F, path", "L, path", "J, path"]
    head("data", "map", *columns)
    for name in names:
        for label, alpha in MAPS.items():
            counts = np.zeros(len(columns), dtype=int)
            for seed in range(n_seeds):
                counts += monotone(problem(name, seed), alpha)
            row(name, label, *(f"{count}/{n_seeds}" for count in counts))


def monotone(given, alpha):
    fixed = np.array([both_losses(given, sigma, alpha) for sigma in SIGMAS]).T
    path = path_from_kmeans(given, alpha, SIGMAS)
    values = errors(given, path)
    falling = [-fixed[0], fixed[1], values["centers"], values["shares"], -path.objective]
    falling += [path.weighted_distortion, path.inertia]
    return [never_rises(value) for value in falling]


def both_losses(given, sigma, alpha, **options):
    losses = ["free_energy", "weighted_distortion"]
    options = {"sigma": sigma, "alpha": alpha, **options}
    return [objective_and_gradient(given.X, given.centers, loss=x, **options)[0] for x in losses]


def hardness_table(names, n_seeds):
    title(
        "Exact hardness",
        "σ_hard of the centers of K-means for entmax-1.5, median; then in how many seeds centers, "
        "labels and F of a fit from there are those of K-means at .999 σ_hard (centers to 1e-12, "
        "F to 1e-12), and a row is shared at 1.05 σ_hard. Last, the center error of softmax at "
        "σ_hard, median.",
    )
    head("data", "σ_hard", "K-means at .999", "shared at 1.05", "softmax error")
    for name in names:
        found = np.array([hardness(problem(name, seed)) for seed in range(n_seeds)])
        counts = [f"{int(count)}/{n_seeds}" for count in found[:, 1:3].sum(axis=0)]
        row(name, f"{np.median(found[:, 0]):.2g}", *counts, f"{np.median(found[:, 3]):.1e}")


def hardness(given):
    sigma = hard_sigma(given.X, given.centers, 1.5)
    kwargs = {"n_clusters": given.n_clusters, "init": given.centers}
    hard = EntmaxKMeans(sigma=0.999 * sigma, **kwargs).fit(given.X)
    nearest = labels(given)
    inertia = ((given.X - given.centers[nearest]) ** 2).sum()
    same = (
        np.abs(hard.cluster_centers_ - given.centers).max() <= 1e-12
        and (hard.labels_ == nearest).all()
        and abs(hard.objective_ - inertia) <= 1e-12 * inertia
    )
    soft = responsibilities(given.X, given.centers, 1.05 * sigma, 1.5).max(axis=1).min() < 1.0
    softmax_centers = SoftKMeans(sigma=sigma, tol=1e-9, **kwargs).fit(given.X).cluster_centers_
    return sigma, same, soft, np.linalg.norm(softmax_centers - given.centers, axis=1).max()


def bounds_table(names, n_seeds):
    title(
        "The sandwich F ≤ J ≤ L",
        "Largest J − F and L − J at random centers, over their bounds 2σ² W H_max and 2σ² W C_K "
        "(W the number of rows), for σ = 1, .3 and .1; then how far the smallest F that was found "
        "is below the smallest J that was found, over the bound, at σ = .3. All are between 0 and "
        "1 where the theory holds.",
    )
    head("data", "map", "J − F", "L − J", "J* − min F")
    for name in names:
        for label, alpha in MAPS.items():
            found = np.array([sandwich(problem(name, s), alpha, s) for s in range(n_seeds)])
            least, most = fixed(found[:, 2].min()), fixed(found[:, 2].max())
            row(name, label, *map(fixed, found[:, :2].max(axis=0)), f"{least} to {most}")


def sandwich(given, alpha, seed):
    entropy, constant = bounds(given.n_clusters, alpha)
    rng = np.random.RandomState(seed)
    ratios = []
    for sigma in (1.0, 0.3, 0.1):
        moved = given._replace(centers=given.centers + rng.normal(size=given.centers.shape))
        free, soft = both_losses(moved, sigma, alpha)
        hard = sq_distances(moved.X, moved.centers).min(axis=1).sum()
        unit = 2.0 * sigma**2 * len(given.X)
        ratios.append([(hard - free) / (unit * entropy), (soft - hard) / (unit * constant)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        soft = EntmaxKMeans(given.n_clusters, alpha=alpha, sigma=0.3, random_state=seed)
        hard = KMeans(given.n_clusters, n_init=20, random_state=seed).fit(given.X)
        lowest = soft.set_params(n_init=20).fit(given.X).objective_
        from_hard = soft.set_params(init=hard.cluster_centers_, n_init=1).fit(given.X).objective_
    unit = 2.0 * 0.3**2 * len(given.X) * entropy
    gap = (hard.inertia_ - min(lowest, from_hard)) / unit
    return *np.max(ratios, axis=0), gap


def bounds(n_clusters, alpha):
    """H_max, and C_K: the largest sum of shares times gaps, of equal gaps of all others."""
    if alpha == 1.0:
        return np.log(n_clusters), lambertw((n_clusters - 1) / np.e).real
    gap = np.linspace(0.0, 4.0, 40001)[:, None]
    scores = np.concatenate([np.zeros_like(gap), np.repeat(-gap, n_clusters - 1, axis=1)], axis=1)
    constant = ((1.0 - entmax(scores, alpha)[:, :1]) * gap).max()
    return 4.0 / 3.0 * (1.0 - n_clusters**-0.5), constant


def steps_table(names, n_seeds):
    title(
        "Gradient steps, trajectories and the exponential rate",
        "Largest distance of a gradient step of length 1/(2N_j) to the step of a fit at σ = .5, "
        "from k-means++ centers; in how many seeds EntmaxKMeans below the certificate of every "
        "step follows Lloyd's algorithm, all centers of all steps to 1e-12; and the decay of the "
        "softmax error against 1/(2σ²), over the smallest gap of squared distances: median, "
        "smallest and largest.",
    )
    head("data", "softmax step", "entmax-1.5 step", "Lloyd's trajectory", "decay / gap")
    for name in names:
        problems = [problem(name, seed) for seed in range(n_seeds)]
        steps = [
            max(step_difference(p, a, s) for s, p in enumerate(problems)) for a in MAPS.values()
        ]
        same = sum(follows_lloyd(given, seed) for seed, given in enumerate(problems))
        decays = [decay(given) for given in problems]
        row(name, *(f"{step:.1e}" for step in steps), f"{same}/{n_seeds}", spread(decays))


def start(given, seed):
    return kmeans_plusplus(given.X, given.n_clusters, random_state=seed)[0]


def one_step(given, centers, sigma, alpha):
    options = {"alpha": alpha, "sigma": sigma, "init": centers, "max_iter": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return EntmaxKMeans(given.n_clusters, **options).fit(given.X).cluster_centers_


def gradient_step(given, centers, sigma, alpha):
    mass = responsibilities(given.X, centers, sigma, alpha).sum(axis=0)
    _, gradient = objective_and_gradient(given.X, centers, sigma=sigma, alpha=alpha)
    return centers - gradient / (2.0 * mass[:, None])


def step_difference(given, alpha, seed):
    centers = start(given, seed)
    stepped = gradient_step(given, centers, 0.5, alpha)
    return np.abs(stepped - one_step(given, centers, 0.5, alpha)).max()


def follows_lloyd(given, seed):
    """Centers of all steps: Lloyd's, and those of EntmaxKMeans at one sigma below every gap."""
    lloyd = [start(given, seed)]
    while len(lloyd) < 2 or np.abs(lloyd[-1] - lloyd[-2]).max() > 0.0:
        nearest = sq_distances(given.X, lloyd[-1]).argmin(axis=1)
        means = [given.X[nearest == j].mean(axis=0) for j in range(given.n_clusters)]
        lloyd.append(np.array(means))
    sigma = 0.999 * min(hard_sigma(given.X, centers, 1.5) for centers in lloyd)
    centers = lloyd[0]
    for expected in lloyd[1:]:
        centers = one_step(given, centers, sigma, 1.5)
        if np.abs(centers - expected).max() > 1e-12:
            return False
    return True


def decay(given):
    """Rate of the softmax error in 1 / (2 sigma^2), relative to the smallest gap."""
    nearest = np.sort(sq_distances(given.X, given.centers), axis=1)
    gap = (nearest[:, 1] - nearest[:, 0]).min()
    inverse = np.linspace(6.0, 14.0, 5) / gap
    path = path_from_kmeans(given, 1.0, np.sqrt(0.5 / inverse))
    found = errors(given, path)["centers"]
    return -np.polyfit(inverse, np.log(found), 1)[0] / gap


def stability_table(names, n_seeds):
    title(
        "Low temperature",
        "Rows without a number among the shares at σ = 1e-6, by exponentials of scores as they are "
        "and by this package. Then the largest error of a share at σ = .3 of float32 rows that lie "
        "at 1000, by |x|² − 2xc + |c|² in float32 and by this package.",
    )
    head("data", "NaN, plain", "NaN, ours", "error, plain", "error, ours")
    for name in names:
        found = np.array([stability(problem(name, seed)) for seed in range(n_seeds)])
        worst = found.max(axis=0)
        percent = [f"{100 * share:.0f} %" for share in worst[:2]]
        row(name, *percent, *(f"{error:.1e}" for error in worst[2:]))


def stability(given):
    with np.errstate(all="ignore"):
        plain = np.exp(-sq_distances(given.X, given.centers) / (2.0 * 1e-6**2))
        plain /= plain.sum(axis=1, keepdims=True)
    ours = responsibilities(given.X, given.centers, 1e-6, 1.0)
    lost = [np.isnan(resp).any(axis=1).mean() for resp in (plain, ours)]
    X, centers = (1000.0 + each.astype(np.float32) for each in (given.X, given.centers))
    exact = softmax(-cdist64(X, centers) / (2.0 * 0.3**2), axis=1)
    squares = (X * X).sum(axis=1)[:, None] - 2.0 * X @ centers.T + (centers * centers).sum(axis=1)
    plain = softmax(-squares / np.float32(2.0 * 0.3**2), axis=1)
    ours = SoftKMeans.from_centers(centers, sigma=0.3).predict_proba(X)
    return *lost, np.abs(plain - exact).max(), np.abs(ours - exact).max()


def cdist64(X, centers):
    difference = X[:, None, :].astype(np.float64) - centers[None].astype(np.float64)
    return (difference**2).sum(axis=2)


def gradients_table(names, n_seeds):
    title(
        "Gradients kept alive",
        "Share of rows whose shares do not answer to their scores: Jacobian entries of exactly 0 "
        "(entmax-1.5) or below 1e-8 (softmax), at the centers of K-means; medians.",
    )
    head("data", *(f"{label}, σ = {s:g}" for label in MAPS for s in (0.1, 0.3, 1.0)))
    for name in names:
        problems = [problem(name, seed) for seed in range(n_seeds)]
        cells = []
        for label, alpha in MAPS.items():
            for sigma in (0.1, 0.3, 1.0):
                still = [unmoved(given, sigma, alpha) for given in problems]
                cells.append(f"{100 * np.median(still):.0f} %")
        row(name, *cells)


def unmoved(given, sigma, alpha):
    resp = responsibilities(given.X, given.centers, sigma, alpha)
    slopes = np.where(resp > 0, np.where(resp > 0, resp, 1.0) ** (2.0 - alpha), 0.0)
    total = slopes.sum(axis=1, keepdims=True)
    diagonal = slopes * (1.0 - slopes / total)  # no entry of a Jacobian is larger
    return (diagonal.max(axis=1) <= (1e-8 if alpha == 1.0 else 0.0)).mean()


# -------------------------------------------------------------------------------- printing


def title(text, explanation):
    print(f"\n## {text}\n\n{explanation}\n")


def head(*names):
    row(*names)
    print("|---|" + "--:|" * (len(names) - 1))


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def spread(values):
    """Median, smallest and largest."""
    values = np.asarray(values, dtype=float)
    known = values[np.isfinite(values)]
    if len(known) == 0:
        return "–"
    few = "" if len(known) == len(values) else f", {len(known)} of {len(values)}"
    return f"{short(np.median(known))} [{short(known.min())}, {short(known.max())}{few}]"


def short(value):
    return f"{0.0 if abs(value) < 1e-9 else value:.2g}"


def fixed(value):
    return f"{round(value, 3) + 0.0:.3f}"  # no negative zero


TABLES = {
    "slopes": slopes_table,
    "monotone": monotone_table,
    "hardness": hardness_table,
    "bounds": bounds_table,
    "steps": steps_table,
    "stability": stability_table,
    "gradients": gradients_table,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds (10)")
    args = parser.parse_args()
    begin = time.perf_counter()
    for name in args.only:
        TABLES[name](args.data, args.seeds)
    print(f"\nAll of this took {time.perf_counter() - begin:.0f} s.")


if __name__ == "__main__":
    main()
