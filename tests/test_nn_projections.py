"""The maps onto the simplex in PyTorch: values, gradients, transforms."""

import numpy as np
import pytest

import reference
from models import run_python
from sklearn_softkmeans import projections

torch = pytest.importorskip("torch")

from sklearn_softkmeans import nn  # noqa: E402
from sklearn_softkmeans.nn import _simplex  # noqa: E402

# What torch says about its own internals: in forward mode, and when it traces a Function.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]

ALPHAS = [1.0, 1.25, 1.5, 2.0, 3.0]
all_alphas = pytest.mark.parametrize("alpha", ALPHAS)
NAMED = {1.0: nn.softmax, 1.5: nn.entmax15, 2.0: nn.sparsemax}
MODULES = {1.0: nn.Softmax, 1.5: nn.Entmax15, 2.0: nn.Sparsemax}


def normal(*shape, seed=0, scale=1.0, dtype=torch.float64):
    draws = scale * np.random.RandomState(seed).normal(size=shape)
    return torch.from_numpy(draws).to(dtype)


def leaf(*shape, **options):
    return normal(*shape, **options).requires_grad_()


def difference(left, right):
    return float((left - right).abs().max())


# ----------------------------------------------------------------------------------- values


@all_alphas
@pytest.mark.parametrize("scale", [0.1, 2.0, 1e6])
@pytest.mark.parametrize("dtype, atol", [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_values_are_those_of_the_numpy_maps(alpha, scale, dtype, atol):
    scores = normal(40, 7, scale=scale, dtype=dtype)
    result = nn.entmax(scores, alpha)
    assert result.dtype == dtype
    expected = projections.entmax(scores.numpy(), alpha)
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=atol)


# Where the kernels do not reach: other devices, compiled graphs, one alpha for each slice.
@pytest.mark.parametrize("alpha", [1 + 1e-9, 1.1, 1.5, 1.9, 2.0, 2.5, 3.0, 6.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e3, 1e12])
@pytest.mark.parametrize("dtype, atol", [(torch.float64, 1e-11), (torch.float32, 3e-6)])
def test_operations_of_torch_alone_give_the_same(alpha, scale, dtype, atol):
    for n_columns in (1, 2, 5, 300):
        scores = normal(20, n_columns, scale=scale, dtype=dtype)
        result = _simplex.project_by_torch(scores, alpha, -1)
        expected = projections.entmax(scores.numpy(), alpha)
        np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_steps_of_newton_suffice_for_scores_that_make_them_slow(alpha):
    """Scores in a geometric series: a step drops few of them from the support."""
    scores = -(0.5 ** torch.arange(60, dtype=torch.float64)).flip(0)[None]
    result = _simplex.project_by_torch(scores, alpha, -1)
    expected = reference.entmax(scores.numpy(), alpha)
    np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=1e-14)


@all_alphas
@pytest.mark.parametrize("dim", [0, 1, 2, -2])
def test_dim_is_where_masses_sum_to_one(alpha, dim):
    scores = normal(3, 4, 5)
    for project in (nn.entmax, _simplex.project_by_torch if alpha > 1 else nn.entmax):
        result = project(scores, alpha, dim)
        expected = nn.entmax(scores.movedim(dim, -1).contiguous(), alpha).movedim(-1, dim)
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("alpha", NAMED)
def test_functions_and_modules_of_a_name_are_entmax_of_their_alpha(alpha):
    scores = normal(5, 4)
    expected = nn.entmax(scores, alpha, 0)
    for result in (NAMED[alpha](scores, 0), MODULES[alpha](0)(scores), nn.Entmax(alpha, 0)(scores)):
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert repr(MODULES[alpha](0)).endswith("(dim=0)")


@pytest.mark.parametrize(
    "alpha, expected",
    [
        (1.0, [0.2119416, 0.2119416, 0.5761169]),
        (1 + 1e-12, [0.2119416, 0.2119416, 0.5761169]),
        (1 + 1e-8, [0.2119416, 0.2119416, 0.5761169]),
        (1.00001, [0.2119403, 0.2119403, 0.5761195]),
        (1.1, [0.1984664, 0.1984664, 0.6030672]),
    ],
)
def test_alpha_is_continuous_at_one(alpha, expected):
    scores = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    for result in (nn.entmax(scores, alpha), nn.entmax(scores, max(alpha, 1 + 1e-12))):
        np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=6e-8)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_peaked_scores_are_one_hot(alpha, scale, dtype):
    scores = leaf(10, 100, seed=21, scale=scale, dtype=dtype)
    expected = torch.nn.functional.one_hot(scores.argmax(-1), 100).to(dtype)
    projects = [nn.entmax] if alpha == 1 else [nn.entmax, _simplex.project_by_torch]
    for project in projects:
        torch.testing.assert_close(project(scores, alpha, -1), expected, rtol=0, atol=1e-25)
    nn.entmax(scores, alpha).square().sum().backward()
    assert scores.grad.isfinite().all()


@all_alphas
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(alpha, dtype):
    scores = leaf(20, 6, scale=3.0, dtype=dtype)
    result = nn.entmax(scores, alpha)
    assert result.dtype == dtype
    exact = nn.entmax(scores.detach().float(), alpha)
    torch.testing.assert_close(result, exact.to(dtype), rtol=0, atol=0)
    (result.float() ** 2).sum().backward()
    assert scores.grad.dtype == dtype
    assert scores.grad.isfinite().all()


@all_alphas
def test_autocast_changes_nothing_for_float32(alpha):
    scores = leaf(20, 6, scale=2.0, dtype=torch.float32)
    expected = nn.entmax(scores, alpha)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = nn.entmax(scores, alpha)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    (grad,) = torch.autograd.grad(result.square().sum(), scores)
    (expected,) = torch.autograd.grad(expected.square().sum(), scores)
    torch.testing.assert_close(grad, expected)


@all_alphas
def test_no_rows_give_no_rows(alpha):
    assert nn.entmax(torch.empty(0, 5), alpha).shape == (0, 5)
    assert nn.entmax(torch.empty(3, 0), alpha).shape == (3, 0)


# ---------------------------------------------------------------------------------- gradients


@all_alphas
@pytest.mark.parametrize("dim", [0, -1])
def test_gradients_of_first_and_second_order(alpha, dim):
    scores = leaf(4, 5)

    def project(z):
        return nn.entmax(z, alpha, dim)

    assert torch.autograd.gradcheck(project, scores, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(project, scores)


@pytest.mark.parametrize("alpha", [1.01, 1.25, 1.5, 1.75])
def test_gradients_in_alpha_of_first_and_second_order(alpha):
    scores = leaf(4, 5)
    order = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(nn.entmax, (scores, order), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(nn.entmax, (scores, order))


def test_each_slice_may_have_an_alpha_of_its_own():
    scores = leaf(4, 5)
    orders = torch.tensor([[1.2], [1.4], [1.6], [1.9]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(nn.entmax, (scores, orders))
    for row, order, result in zip(scores, orders, nn.entmax(scores, orders), strict=True):
        expected = nn.entmax(row, float(order.detach()))
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype, atol", [(torch.float64, 1e-9), (torch.float32, 2e-6)])
def test_gradient_in_alpha_does_not_cancel_near_one(dtype, atol):
    """At 1 it is p (mean of (log p)^2 - (log p)^2) / 2."""
    scores = normal(6, 5, dtype=dtype)
    order = torch.tensor(1 + 1e-5, dtype=dtype)
    resp = torch.softmax(scores.double(), -1)
    squares = resp.log() ** 2
    expected = resp * ((resp * squares).sum(-1, keepdim=True) - squares) / 2
    slope = _simplex.slope_in_alpha(torch.softmax(scores, -1), order, -1)
    assert difference(slope, expected) < atol + 1e-5


@pytest.mark.parametrize("alpha", [1.25, 1.5, 2.0, 3.0])
def test_jacobian_is_that_of_the_formula(alpha):
    """dr / dz = diag(s) - s s^T / sum(s), with s = r^(2 - alpha) on the support."""
    scores = normal(6, scale=0.5)
    resp = projections.entmax(scores.numpy(), alpha)
    slopes = np.zeros(6)
    slopes[resp > 0] = resp[resp > 0] ** (2 - alpha)
    expected = np.diag(slopes) - np.outer(slopes, slopes) / slopes.sum()
    for jacobian in (torch.func.jacrev, torch.func.jacfwd):
        result = jacobian(lambda z: nn.entmax(z, alpha))(scores)
        np.testing.assert_allclose(result.numpy(), expected, rtol=0, atol=1e-12)


@all_alphas
@pytest.mark.parametrize(
    "row",
    [
        [0.0, 0.0, 0.0],  # ties
        [2.0, 0.0, 0.0],  # the edge at alpha = 1.5
        [1.0, 0.0, 0.0],  # at alpha = 2
        [0.5, 0.0, 0.0],  # at alpha = 3
        [0.5, 1e-13, 0.0],
        [1e30, 0.0, -1e30],
        [1e-40, 0.0, 0.0],
        [0.0, -3e38, 3e38],
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_are_finite_at_kinks_and_ties(alpha, row, dtype):
    scores = torch.tensor([row, [0.3, 0.2, 0.1]], dtype=dtype, requires_grad=True)
    result = nn.entmax(scores, alpha)
    np.testing.assert_allclose(result.detach().sum(-1).numpy(), 1.0, rtol=0, atol=1e-6)
    weights = torch.tensor([1.0, 2.0, -1.0], dtype=dtype)
    (grad,) = torch.autograd.grad((result * weights).sum(), scores, create_graph=True)
    assert grad.isfinite().all()
    if alpha < 2:  # there it is constant, and above infinite at the kink
        (second,) = torch.autograd.grad(grad.square().sum(), scores)
        assert second.isfinite().all()


def test_entmax15_has_no_gradient_from_the_kink_on():
    """t = half the gap: p_1 = ((t + sqrt(2 - t^2)) / 2)^2 up to t = 1, which is C1 there."""
    gap = torch.tensor([1.998, 2.0, 2.1], dtype=torch.float64, requires_grad=True)
    share = nn.entmax15(torch.stack([gap, torch.zeros(3)], dim=-1))[:, 0]
    (grad,) = torch.autograd.grad(share.sum(), gap)
    assert 0 < grad[0] < 1e-3
    assert grad[1:].tolist() == [0.0, 0.0]


def test_a_vanishing_share_does_not_spoil_gradients_above_two():
    """The Jacobian at r = (1 - e, e), where the slope of e is huge, is that of the formula."""
    for dtype, atol in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        resp = torch.tensor([0.6, 0.4, 1e-9], dtype=dtype)
        vector = torch.tensor([1.0, 3.0, 2.0], dtype=dtype)
        product = _simplex.jacobian_product(resp, vector, 3.0, -1).double()
        slopes = 1.0 / resp.double()
        exact = torch.stack(
            [slopes[i] * (slopes * (vector[i] - vector)).sum() / slopes.sum() for i in range(3)]
        )
        torch.testing.assert_close(product, exact, rtol=atol, atol=atol)


# ------------------------------------------------------------------------------------- masks


@all_alphas
def test_a_masked_entry_gets_nothing_and_leaves_the_rest_alone(alpha):
    scores = leaf(6, 4)
    masked = torch.cat([scores, torch.full((6, 1), -torch.inf)], dim=1)
    result = nn.entmax(masked, alpha)
    assert (result[:, -1] == 0).all()
    expected = nn.entmax(scores, alpha)
    torch.testing.assert_close(result[:, :-1], expected, rtol=0, atol=1e-14)
    (grad,) = torch.autograd.grad(result[:, :-1].square().sum(), scores)
    (expected,) = torch.autograd.grad(expected.square().sum(), scores)
    torch.testing.assert_close(grad, expected, rtol=0, atol=1e-13)


@all_alphas
@pytest.mark.parametrize("kernels", [True, False])
def test_a_masked_slice_is_zero_and_leaves_the_others_alone(alpha, kernels, monkeypatch):
    if not kernels:
        monkeypatch.setattr(_simplex, "_fits_kernels", lambda scores, alpha: False)
    scores = normal(5, 3, dtype=torch.float32)
    expected = nn.entmax(scores, alpha)
    scores[2] = -torch.inf
    scores.requires_grad_()
    result = nn.entmax(scores, alpha)
    assert result[2].tolist() == [0.0, 0.0, 0.0]
    kept = torch.arange(5) != 2
    torch.testing.assert_close(result[kept], expected[kept], rtol=0, atol=1e-6)
    result.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert scores.grad[2].tolist() == [0.0, 0.0, 0.0]


@all_alphas
def test_a_slice_with_nan_leaves_the_others_alone(alpha):
    scores = normal(5, 3)
    expected = nn.entmax(scores, alpha)
    scores[1, 1] = torch.nan
    result = nn.entmax(scores, alpha)
    assert result[1].isnan().any()
    kept = torch.arange(5) != 1
    torch.testing.assert_close(result[kept], expected[kept], rtol=0, atol=1e-12)


def test_a_masked_slice_has_no_part_in_the_gradient_of_alpha():
    order = torch.tensor(1.4, requires_grad=True)
    scores = torch.tensor([[0.0, 0.5], [-torch.inf, -torch.inf]])
    nn.entmax(scores, order)[:, 0].sum().backward()
    full = order.grad.clone()
    order.grad = None
    nn.entmax(scores[:1], order)[:, 0].sum().backward()
    assert float(full) == pytest.approx(float(order.grad)) != 0


# ------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("alpha", [0.9, 0, -1, float("nan"), float("inf"), "a", None])
def test_alpha_below_one_or_not_finite_is_an_error(alpha):
    with pytest.raises(ValueError, match="alpha"):
        nn.entmax(torch.zeros(3), alpha)
    with pytest.raises(ValueError, match="alpha"):
        nn.Entmax(alpha)


@pytest.mark.parametrize("alpha", [1.0, 0.5, 2.1, float("nan")])
def test_a_tensor_alpha_outside_of_its_interval_is_an_error(alpha):
    with pytest.raises(ValueError, match="alpha must have values above 1 and up to 2"):
        nn.entmax(torch.zeros(3), torch.tensor(alpha))


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1, 1)])
def test_a_tensor_alpha_that_does_not_broadcast_is_an_error(shape):
    with pytest.raises(ValueError, match="alpha of shape"):
        nn.entmax(torch.zeros(2, 3), torch.full(shape, 1.5))


@pytest.mark.parametrize("scores", [torch.zeros(3, dtype=torch.long), np.zeros(3), [0.0, 1.0]])
def test_scores_must_be_a_floating_tensor(scores):
    with pytest.raises(TypeError, match="scores must be a tensor of floating point numbers"):
        nn.softmax(scores)


@pytest.mark.parametrize("dim", [2, -3])
def test_dim_out_of_range_is_an_error(dim):
    with pytest.raises(IndexError, match="out of range"):
        nn.entmax15(torch.zeros(2, 3), dim)


def test_without_torch_the_error_says_what_to_install():
    code = """
import json, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
import sklearn_softkmeans
try:
    import sklearn_softkmeans.nn
except ImportError as error:
    print(json.dumps(str(error)))
"""
    assert 'pip install "sklearn-softkmeans[torch]"' in run_python(code)


# ---------------------------------------------------------------------------- learnable alpha


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("start", [1.01, 1.33, 1.9])
def test_a_learned_alpha_stays_in_its_interval(sign, start):
    module = nn.Entmax(start, learn_alpha=True)
    assert float(module.alpha.detach()) == pytest.approx(start, abs=1e-6)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
    scores = normal(8, 4, dtype=torch.float32)
    for _ in range(500):
        optimizer.zero_grad()
        loss = 100 * sign * module.alpha + module(scores).square().sum()
        loss.backward()
        optimizer.step()
        alpha = float(module.alpha.detach())
        assert 1.0 < alpha < 2.0
        assert loss.isfinite()
        assert module.raw_alpha.grad.isfinite()
    assert alpha == pytest.approx(1.5 - 0.499 * sign, abs=5e-3)
    assert "alpha=1." in repr(module)


@pytest.mark.parametrize("start", [1.0, 2.0, 3.0])
def test_a_learned_alpha_must_start_inside_its_interval(start):
    with pytest.raises(ValueError, match="must start between"):
        nn.Entmax(start, learn_alpha=True)


# --------------------------------------------------------------------------------- transforms


@all_alphas
def test_vmap_gives_what_a_loop_gives(alpha):
    scores = normal(6, 4, 5)
    result = torch.func.vmap(lambda z: nn.entmax(z, alpha, 0), in_dims=1, out_dims=1)(scores)
    expected = torch.stack([nn.entmax(z, alpha, 0) for z in scores.unbind(1)], dim=1)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-14)


def test_vmap_over_alpha_alone_and_with_scores():
    scores, orders = normal(3, 5), torch.tensor([1.2, 1.5, 1.8], dtype=torch.float64)
    expected = torch.stack([nn.entmax(scores, a) for a in orders.tolist()])
    result = torch.func.vmap(lambda a: nn.entmax(scores, a))(orders)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-13)
    alone = torch.func.vmap(lambda z: nn.entmax(z, orders[1]))(scores)
    torch.testing.assert_close(alone, nn.entmax(scores, 1.5), rtol=0, atol=1e-13)
    result = torch.func.vmap(nn.entmax)(scores, orders)
    torch.testing.assert_close(result, nn.entmax(scores, orders[:, None]), rtol=0, atol=1e-13)


@all_alphas
def test_functional_transforms_nest(alpha):
    scores = normal(3, 4)

    def energy(z):
        return nn.entmax(z, alpha).pow(3).sum()

    hessians = torch.func.vmap(torch.func.hessian(energy))(scores)
    for row, hessian in zip(scores, hessians, strict=True):
        expected = torch.autograd.functional.hessian(energy, row)
        torch.testing.assert_close(hessian, expected, rtol=0, atol=1e-12)


@all_alphas
def test_compiled_graph_is_whole_and_agrees(alpha):
    compiled = torch.compile(lambda z: nn.entmax(z, alpha), fullgraph=True, backend="aot_eager")
    scores = leaf(6, 7, dtype=torch.float32)
    scores.data[2] = -torch.inf
    scores.data[3, 1] = -torch.inf
    result, expected = compiled(scores), nn.entmax(scores, alpha)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-6)
    (grad,) = torch.autograd.grad(result.square().sum(), scores)
    (expected,) = torch.autograd.grad(expected.square().sum(), scores)
    torch.testing.assert_close(grad, expected, rtol=0, atol=3e-6)


def test_compiled_module_learns_its_alpha():
    module = nn.Entmax(1.33, learn_alpha=True)
    scores = normal(6, 7, dtype=torch.float32)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    compiled(scores).square().sum().backward()
    (expected,) = torch.autograd.grad(module(scores).square().sum(), module.raw_alpha)
    assert float(module.raw_alpha.grad) == pytest.approx(float(expected), rel=1e-4)


@all_alphas
def test_deterministic_mode_repeats_bitwise(alpha):
    scores = leaf(300, 40, dtype=torch.float32)

    def gradient():
        result = nn.entmax(scores, alpha)
        return torch.autograd.grad(result.square().sum(), scores)[0]

    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(gradient(), gradient())
    finally:
        torch.use_deterministic_algorithms(False)


def test_derivatives_forward_in_alpha_alone():
    scores, order = normal(5), torch.tensor(1.4, dtype=torch.float64)
    one, step = torch.ones_like(order), 1e-6
    found = torch.func.jvp(lambda a: nn.entmax(scores, a), (order,), (one,))[1]
    around = nn.entmax(scores, 1.4 + step) - nn.entmax(scores, 1.4 - step)
    torch.testing.assert_close(found, around / (2 * step), rtol=0, atol=1e-8)


@pytest.mark.parametrize("alpha", [1.2, 1.5, 2.0])
def test_what_a_compiled_graph_computes_agrees(alpha, monkeypatch):
    """It cannot look at numbers, and takes all passes."""
    scores = normal(3, 5)
    expected = nn.entmax(scores, alpha)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert _simplex.any_of(scores > 0.0, unknown=None) is None
    torch.testing.assert_close(
        _simplex.project_by_torch(scores, alpha, -1), expected, rtol=0, atol=1e-14
    )
