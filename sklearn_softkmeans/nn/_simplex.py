"""Entmax of tensors without gradients, and the pieces that its gradients are made of.

Everything works along one dimension, on float32 or float64. `alpha` is a float above 1, or a tensor
in (1, 2] that broadcasts against the scores; a = alpha - 1. As in the kernels of the package
p_j = exp_a(z_j - max(z) - tau) with the alpha-exponential exp_a(t) = [1 + a t]_+^(1/a).
"""

import math

import torch

from .. import projections


def project(scores, alpha, dim):
    """Entmax along `dim`; slices of nothing but -inf become zeros."""
    if _fits_kernels(scores, alpha):
        try:
            values = scores.detach().numpy()
            return torch.from_numpy(projections.entmax(values, float(alpha), axis=dim))
        except ValueError:
            pass  # some slice has NaN or nothing but -inf: the others still have an answer
    return project_by_torch(scores, alpha, dim)


def _fits_kernels(scores, alpha):
    """Whether the compiled kernels, several times faster, can read these scores."""
    if torch.compiler.is_compiling() or scores.numel() == 0:
        return False
    if isinstance(alpha, torch.Tensor) and alpha.ndim > 0:
        return False
    return type(scores) is torch.Tensor and scores.device.type == "cpu"


def project_by_torch(scores, alpha, dim):
    """The same in operations of torch alone, for every device and for compilation."""
    if scores.numel() == 0:
        return scores.clone()
    peak = scores.amax(dim, keepdim=True)
    empty = peak == -math.inf
    shifted = (scores - peak).masked_fill(empty, 0.0)
    a = alpha - 1.0
    solve = _above_two if isinstance(a, float) and a > 1.0 else _up_to_two
    responsibilities = solve(shifted, a, dim)
    total = responsibilities.sum(dim, keepdim=True)
    return (responsibilities / total).masked_fill(empty, 0.0)


def any_of(flags, *, unknown):
    """Whether a flag is set; `unknown` where looking would break a graph, or wait for a device."""
    if torch.compiler.is_compiling() or flags.device.type != "cpu":
        return unknown
    try:
        return bool(flags.any())
    except RuntimeError:  # inside vmap
        return unknown


# ------------------------------------------------------------------------------- thresholds


def _up_to_two(shifted, a, dim):
    """Solve log_a(sum_j p_j) = 0 for tau by Newton's method from the left, for a <= 1.

    The function is convex and falls, so no step overshoots; and each divides the product of its
    value and its slope by four or more, from at most n_clusters ** 2. That bounds the passes.
    """
    rounding = torch.finfo(shifted.dtype).eps
    n_passes = math.ceil(math.log2(shifted.shape[dim]) - 0.5 * math.log2(rounding)) + 1
    tau = torch.zeros_like(shifted.select(dim, 0)).unsqueeze(dim)
    for _ in range(n_passes):
        resp, slopes = _exponentials(shifted - tau, a)
        log_total = resp.sum(dim, keepdim=True).log()
        slope = slopes.sum(dim, keepdim=True) * torch.exp((a - 1.0) * log_total)
        step = (torch.expm1(a * log_total) / (a * slope)).clamp_min(0.0)
        tau = tau + step
        if not (torch.compiler.is_compiling() or (step > 4.0 * rounding).any()):
            break
    return _exponentials(shifted - tau, a)[0]


def _exponentials(distance, a):
    """The responsibilities p = exp_a(distance), and p^(1 - a), their derivatives."""
    if isinstance(a, float) and a in (0.5, 1.0):
        base = (1.0 + a * distance).clamp_min(0.0)
        return (base * base, base) if a == 0.5 else (base, (base > 0.0).to(base.dtype))
    exponent = a * distance
    inside = exponent > -1.0
    log_resp = torch.log1p(torch.where(inside, exponent, 0.0)) / a
    resp, slopes = log_resp.exp(), torch.exp((1.0 - a) * log_resp)
    return torch.where(inside, resp, 0.0), torch.where(inside, slopes, 0.0)


def _above_two(shifted, a, dim):
    """Entmax for a > 1, by its smallest responsibility p_e at the score z_e.

    There p rises vertically from the edge of the support, so that no threshold in floating point
    makes the sum one. p_j = [p_e^a + a (z_j - z_e)]^(1/a) is well conditioned, and the sum convex
    in p_e: Newton's method from the right falls to the solution.
    """
    edge = _smallest_score_with_mass(shifted, a, dim)
    gaps = a * (shifted - edge)
    inside, above = gaps >= 0.0, gaps > 0.0
    lowest = 1.0 / inside.sum(dim, keepdim=True).to(shifted.dtype)
    rounding = torch.finfo(shifted.dtype).eps
    for _ in range(8 - math.ceil(math.log2(rounding))):  # a step may only halve p_e
        powers = torch.where(above, lowest**a + gaps, 1.0)
        resp = torch.where(above, powers ** (1.0 / a), lowest * inside)
        slopes = torch.where(above, lowest ** (a - 1.0) * powers ** (1.0 / a - 1.0), 1.0 * inside)
        step = (resp.sum(dim, keepdim=True) - 1.0) / slopes.sum(dim, keepdim=True)
        lowest = torch.maximum(lowest - step, 0.5 * lowest)
        if not (torch.compiler.is_compiling() or (step > rounding * lowest).any()):
            break
    powers = torch.where(above, lowest**a + gaps, 1.0)
    return torch.where(above, powers ** (1.0 / a), lowest * inside)


def _smallest_score_with_mass(shifted, a, dim):
    """Bisect the sorted scores: one has mass if those above it do not fill the simplex alone."""
    ordered = shifted.sort(dim, descending=True).values
    low = torch.zeros_like(ordered.select(dim, 0), dtype=torch.long).unsqueeze(dim)
    high = torch.full_like(low, ordered.shape[dim] - 1)
    for _ in range(ordered.shape[dim].bit_length()):
        middle = (low + high + 1) // 2
        gaps = a * (ordered - ordered.gather(dim, middle))
        fits = (gaps.clamp_min(0.0) ** (1.0 / a)).sum(dim, keepdim=True) < 1.0
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle - 1)
    return ordered.gather(dim, low)


# ------------------------------------------------------------------------------- derivatives


def jacobian_product(responsibilities, vector, alpha, dim):
    """The Jacobian, which is symmetric, times `vector`: (diag(s) - s s^T / sum(s)) v.

    s = r^(2 - alpha) on the support and 0 off it.
    """
    slopes = _slopes(responsibilities, alpha)
    total = _positive(slopes.sum(dim, keepdim=True))
    if isinstance(alpha, float) and alpha > 2.0:
        vector = vector - _mean_at_the_edge(responsibilities, vector, dim)
    mean = (slopes * vector).sum(dim, keepdim=True) / total
    return slopes * (vector - mean)


def _slopes(responsibilities, alpha):
    if isinstance(alpha, float) and alpha == 1.5 and not torch.is_grad_enabled():
        return responsibilities.sqrt()  # its own derivative would be infinite off the support
    inside = responsibilities > 0.0
    if isinstance(alpha, float) and alpha == 2.0:
        return inside.to(responsibilities.dtype)
    slopes = torch.where(inside, responsibilities, 1.0) ** (2.0 - alpha)
    if isinstance(alpha, float) and alpha > 2.0:  # where the smallest share is next to nothing
        slopes = slopes.clamp_max(torch.finfo(slopes.dtype).max ** 0.5)
    return slopes * inside


def _mean_at_the_edge(responsibilities, vector, dim):
    """Mean of `vector` where the shares are smallest, and the slopes for alpha > 2 largest.

    The product does not change if a constant is subtracted; without this one, large slopes would
    multiply rounding errors.
    """
    positive = torch.where(responsibilities > 0.0, responsibilities, math.inf)
    at_edge = (positive == positive.amin(dim, keepdim=True)).to(vector.dtype)
    return (at_edge * vector).sum(dim, keepdim=True) / at_edge.sum(dim, keepdim=True)


def slope_in_alpha(responsibilities, alpha, dim):
    """Derivative dr / dalpha as Correia, Niculae & Martins (2019) have it, not cancelling at 1.

    With L = -log r, s = r^(1 - a), m = (s - r - a r L) / a^2, and H and M the sums of r L and m,
    their formula is (M r - m + a (M r L - H m)) / sum(s).
    """
    a = alpha - 1.0
    inside = responsibilities > 0.0
    safe = torch.where(inside, responsibilities, 1.0)
    information = -safe.log()
    entropies = responsibilities * information
    slopes = safe ** (1.0 - a) * inside
    exponent = a * information
    series = entropies * information * _second_remainder(exponent.clamp_max(0.25))
    excess = (slopes - responsibilities - a * entropies) / (a * a)
    excess = torch.where(exponent < 0.25, series, excess)
    entropy, total_excess = entropies.sum(dim, keepdim=True), excess.sum(dim, keepdim=True)
    first = total_excess * responsibilities - excess
    second = total_excess * entropies - entropy * excess
    return (first + a * second) / _positive(slopes.sum(dim, keepdim=True))


def _second_remainder(x):
    """(exp(x) - 1 - x) / x^2 for x <= 1/4, by its series."""
    result = torch.zeros_like(x)
    for k in range(12, 1, -1):
        result = result * x + 1.0 / math.factorial(k)
    return result


def _positive(total):
    """`total`, or 1 for slices without mass, whose numerators are 0."""
    return torch.where(total > 0.0, total, 1.0)


# -------------------------------------------------------------------------------- the conjugate


def regulariser(responsibilities, alpha, dim):
    """Omega(r) = (sum_j r_j^alpha - 1) / (alpha (alpha - 1)); -entropy for alpha = 1; of the sum 1.

    Written as sum_j r_j (r_j^a - 1) / (a alpha), which is 0 for a slice without mass too.
    """
    safe = torch.where(responsibilities > 0.0, responsibilities, 1.0)
    if isinstance(alpha, float) and alpha == 1.0:
        return (responsibilities * safe.log()).sum(dim)
    a = alpha - 1.0
    return (responsibilities * torch.expm1(a * safe.log()) / (a * alpha)).sum(dim)


def regulariser_slope(responsibilities, alpha, dim):
    """Derivative of `regulariser` in a tensor alpha, with the responsibilities fixed."""
    a = alpha.squeeze(dim) - 1.0 if alpha.ndim > 0 else alpha - 1.0
    safe = torch.where(responsibilities > 0.0, responsibilities, 1.0)
    powers = responsibilities * safe ** (alpha - 1.0) * safe.log()
    omega = regulariser(responsibilities, alpha, dim)
    return (powers.sum(dim) - (2.0 * a + 1.0) * omega) / (a * (a + 1.0))
