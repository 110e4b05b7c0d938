"""The layer: agreement with the estimators, gradients in every corner, guards; the losses."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import reference
from models import at_centers, fit_quietly, model
from sklearn_softkmeans import SoftKMeans

torch = pytest.importorskip("torch")

from sklearn_softkmeans import nn  # noqa: E402

# What torch says about its own internals when it traces a Function.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")

ALPHAS = [1.0, 1.5, 2.0]
all_alphas = pytest.mark.parametrize("alpha", ALPHAS)
PRECISION = {np.float64: 1e-12, np.float32: 1e-6}


def normal(*shape, seed=0, scale=1.0, dtype=torch.float64):
    draws = scale * np.random.RandomState(seed).normal(size=shape)
    return torch.from_numpy(draws).to(dtype)


def layer_at(centers, sigma=1.0, alpha=1.0, **options):
    centers = torch.as_tensor(centers)
    layer = nn.SoftKMeansLayer(*centers.shape, sigma=sigma, alpha=alpha, **options)
    layer.centers.data = centers.clone()
    return layer


# ---------------------------------------------------------------- agreement with the estimators


@all_alphas
@pytest.mark.parametrize("name", ["iris", "wine", "digits", "cancer"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_layer_and_estimator_agree(alpha, name, dtype, offset):
    X = (reference.data(name) + offset).astype(dtype)
    estimator = fit_quietly(model(alpha, 8, max_iter=3, random_state=0), X)
    layer = nn.SoftKMeansLayer.from_estimator(estimator)
    for sigma in (estimator.sigma_, 5 * estimator.sigma_):
        layer.set_sigma(sigma)
        at_sigma = at_centers(alpha, estimator.cluster_centers_, sigma)
        result = layer(torch.from_numpy(X)).detach().numpy()
        assert result.dtype == dtype
        expected = at_sigma.predict_proba(X)
        np.testing.assert_allclose(result, expected, rtol=0, atol=PRECISION[dtype])


@all_alphas
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_from_and_to_an_estimator_keep_every_bit(alpha, dtype):
    X = reference.data("iris").astype(dtype)
    estimator = model(alpha, 3, random_state=0).fit(X)
    layer = nn.SoftKMeansLayer.from_estimator(estimator, learn_sigma=True)
    assert layer.alpha == alpha
    back = layer.to_estimator()
    assert type(back) is type(estimator)
    assert back.sigma_ == estimator.sigma_
    assert back.cluster_centers_.dtype == dtype
    np.testing.assert_array_equal(back.cluster_centers_, estimator.cluster_centers_)
    np.testing.assert_array_equal(back.predict_proba(X), estimator.predict_proba(X))
    with torch.no_grad():
        layer.centers.zero_()
    assert (estimator.cluster_centers_ != 0).any()


def test_a_learned_alpha_reaches_the_estimator():
    layer = nn.SoftKMeansLayer(3, 2, sigma=1.0, alpha=1.4, learn_alpha=True)
    assert layer.to_estimator().alpha == float(layer.alpha.detach())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_centers_in_half_precision_reach_the_estimator_as_float32(dtype):
    layer = nn.SoftKMeansLayer(3, 2, sigma=1.0, dtype=dtype)
    assert layer.to_estimator().cluster_centers_.dtype == np.float32


def test_only_fitted_estimators_with_a_temperature_become_layers():
    with pytest.raises(TypeError, match=r"SoftKMeans\.from_centers"):
        nn.SoftKMeansLayer.from_estimator(object())
    with pytest.raises(ValueError, match="positive sigma"):
        nn.SoftKMeansLayer.from_estimator(SoftKMeans.from_centers([[0.0]], sigma=0.0))


@all_alphas
@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_objectives_are_those_of_the_definitions(alpha, sigma):
    X, centers = normal(40, 3).numpy(), normal(4, 3, seed=1).numpy()
    layer = layer_at(centers, sigma, alpha)
    rows = torch.from_numpy(X)
    resp = reference.responsibilities(X, centers, sigma, alpha)
    weighted = (resp * reference.sq_distances(X, centers)).sum(1)
    result = layer.weighted_distortion(rows, reduction="none").detach().numpy()
    np.testing.assert_allclose(result, weighted, rtol=1e-12)
    total = layer.free_energy(rows, reduction="sum").item()
    assert total == pytest.approx(reference.free_energy(X, centers, sigma, alpha), rel=1e-12)
    assert layer.free_energy(rows).item() == pytest.approx(total / 40, rel=1e-12)
    np.testing.assert_allclose(
        layer.distances(rows).detach().numpy(), reference.sq_distances(X, centers), rtol=1e-12
    )


# ------------------------------------------------------------------------------------ gradients


@all_alphas
@pytest.mark.parametrize("learn", [False, True])
def test_gradients_of_first_and_second_order(alpha, learn):
    rows, centers = normal(5, 2).requires_grad_(), normal(3, 2, seed=1).requires_grad_()
    sigma = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    order = torch.tensor(1.4, dtype=torch.float64, requires_grad=True) if learn else alpha
    inputs = (rows, centers, sigma, *([order] if learn else []))

    for loss in (nn.free_energy, nn.weighted_distortion):

        def objective(rows, centers, sigma, order=alpha, loss=loss):
            return loss(nn.sq_distances(rows, centers), sigma, order, "none")

        assert torch.autograd.gradcheck(objective, inputs)
        assert torch.autograd.gradgradcheck(objective, inputs)


@all_alphas
def test_gradient_of_the_free_energy_is_mass_times_the_way_to_the_mean(alpha):
    rows, layer = normal(50, 3), layer_at(normal(4, 3, seed=1), 0.8, alpha)
    layer.free_energy(rows, reduction="sum").backward()
    resp = layer(rows).detach()
    mass = resp.sum(0)[:, None]
    expected = 2 * mass * (layer.centers.detach() - resp.T @ rows / mass)
    torch.testing.assert_close(layer.centers.grad, expected, rtol=1e-10, atol=1e-12)


def test_a_row_on_a_center_has_finite_gradients():
    """R1 = 1 / (1 + exp(-1/2)) and dR1/dx = -R1 (1 - R1) for x on the first of 0 and 1."""
    layer = layer_at([[0.0], [1.0]])
    row = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    share = layer(row)[0, 0]
    (grad,) = torch.autograd.grad(share, row, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), row)
    assert share.item() == pytest.approx(0.6224593, abs=1e-7)
    assert grad.item() == pytest.approx(-0.2350037, abs=1e-7)
    # R'' = R (1 - R) (1 - 2 R)
    assert second.item() == pytest.approx(0.2350037 * (1 - 2 * 0.6224593), abs=1e-6)


@all_alphas
def test_training_from_centers_on_rows_stays_finite(alpha):
    rows = normal(64, 5, dtype=torch.float32)
    layer = layer_at(rows[:6], 1.0, alpha)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    for _ in range(10):
        optimizer.zero_grad()
        loss = layer.weighted_distortion(rows) + layer.free_energy(rows)
        loss.backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters())
        optimizer.step()
    assert loss.isfinite()


@pytest.mark.parametrize("alpha", [1.0, 1.25, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("sigma", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("far", [0.0, 1e12])
def test_everything_is_finite_at_all_temperatures_and_far_away(alpha, sigma, dtype, far):
    centers = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], dtype=dtype)
    layer = layer_at(centers, sigma, alpha, learn_sigma=True)
    rows = torch.tensor([[0.0, 0.0], [0.5, 0.0], [-1.0, 2.0]], dtype=dtype) + far
    rows.requires_grad_()
    resp = layer(rows)
    torch.testing.assert_close(resp.sum(-1), torch.ones(3, dtype=dtype), rtol=0, atol=1e-6)
    for value in (layer.free_energy(rows), layer.weighted_distortion(rows), resp.square().sum()):
        grads = torch.autograd.grad(value, [rows, layer.centers, layer.log_sigma])
        assert value.isfinite()
        assert all(grad.isfinite().all() for grad in grads)


def test_an_offset_costs_no_digit_of_the_gradients():
    rows, centers = normal(30, 3), normal(4, 3, seed=1)
    grads = []
    for offset in (0.0, 2.0**30):
        layer = layer_at(torch.round(centers * 2**20) / 2**20 + offset, 0.8)
        layer.free_energy(torch.round(rows * 2**20) / 2**20 + offset).backward()
        grads.append(layer.centers.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-11, atol=1e-13)


# --------------------------------------------------------------------- masks, shapes, precisions


@all_alphas
def test_a_masked_cluster_gets_nothing(alpha):
    rows, centers = normal(6, 3).requires_grad_(), normal(4, 3, seed=1)
    layer, smaller = (
        layer_at(centers, 1.2, alpha, learn_sigma=True),
        layer_at(centers[:3], 1.2, alpha),
    )
    mask = torch.tensor([True, True, True, False])
    resp = layer(rows, mask)
    assert (resp[:, 3] == 0).all()
    torch.testing.assert_close(resp[:, :3], smaller(rows), rtol=0, atol=1e-14)
    for ours, expected in (
        (layer.free_energy(rows, mask), smaller.free_energy(rows)),
        (layer.weighted_distortion(rows, mask), smaller.weighted_distortion(rows)),
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-13, atol=0)
        grads = torch.autograd.grad(ours, [rows, layer.centers, layer.log_sigma])
        assert all(grad.isfinite().all() for grad in grads)
        assert (grads[1][3] == 0).all()


@all_alphas
def test_a_row_without_clusters_is_nothing_and_leaves_the_others_alone(alpha):
    rows = normal(5, 3).requires_grad_()
    layer = layer_at(normal(4, 3, seed=1), 1.2, alpha, learn_sigma=True)
    mask = (torch.arange(5) < 3)[:, None]  # the last two rows are padding
    resp = layer(rows, mask)
    assert (resp[3:] == 0).all()
    torch.testing.assert_close(resp[:3], layer(rows[:3]), rtol=0, atol=1e-15)
    for objective in (layer.free_energy, layer.weighted_distortion):
        values = objective(rows, mask, "none")
        assert (values[3:] == 0).all()
        torch.testing.assert_close(values[:3], objective(rows[:3], reduction="none"))
        grads = torch.autograd.grad(values.sum(), [rows, layer.centers, layer.log_sigma])
        expected = torch.autograd.grad(
            objective(rows[:3], reduction="sum"), [layer.centers, layer.log_sigma]
        )
        torch.testing.assert_close(grads[1:], expected)
        assert (grads[0][3:] == 0).all()


def test_leading_dimensions_are_kept():
    layer = layer_at(normal(4, 3, seed=1))
    rows = normal(2, 5, 3)
    torch.testing.assert_close(layer(rows)[1], layer(rows[1]), rtol=0, atol=1e-15)
    assert layer(rows[0, 0]).shape == (4,)
    assert layer.free_energy(rows, reduction="none").shape == (2, 5)
    assert layer(torch.empty(0, 3)).shape == (0, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_back_as_such_and_is_computed_in_more(dtype):
    rows, layer = normal(9, 3, dtype=dtype), layer_at(normal(4, 3, seed=1, dtype=torch.float32))
    assert layer(rows).dtype == dtype
    torch.testing.assert_close(layer(rows), layer(rows.float()).to(dtype), rtol=0, atol=0)
    assert layer.free_energy(rows).dtype == torch.float32
    assert layer.distances(rows).dtype == torch.float32
    assert nn.free_energy(layer.distances(rows).to(dtype), 1.0).dtype == torch.float32


def test_autocast_does_not_round_distances():
    rows, layer = normal(9, 30, dtype=torch.float32) + 100, layer_at(normal(4, 30, seed=1) + 100)
    expected = layer(rows)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = layer(rows)
        loss = layer.free_energy(rows)
    torch.testing.assert_close(result, expected, rtol=0, atol=0)
    loss.backward()
    assert layer.centers.grad.isfinite().all()


@all_alphas
def test_compiled_layer_is_one_graph_and_agrees(alpha):
    layer = layer_at(normal(4, 3, seed=1, dtype=torch.float32), 1.1, alpha).eval()
    rows = normal(8, 3, dtype=torch.float32)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    compiled(rows).square().sum().backward()
    (expected,) = torch.autograd.grad(layer(rows).square().sum(), layer.centers)
    torch.testing.assert_close(compiled(rows), layer(rows), rtol=0, atol=1e-6)
    torch.testing.assert_close(layer.centers.grad, expected, rtol=1e-4, atol=1e-6)


@all_alphas
def test_gradients_for_each_row_by_vmap(alpha):
    layer = layer_at(normal(4, 3, seed=1), 1.1, alpha, track_mass=False)
    rows = normal(6, 3)
    weights = dict(layer.named_parameters())

    def energy(weights, row):
        centers = weights["centers"]
        return nn.free_energy(nn.sq_distances(row, centers), 1.1, alpha)

    grads = torch.func.vmap(torch.func.grad(energy), (None, 0))(weights, rows)["centers"]
    for row, grad in zip(rows, grads, strict=True):
        (expected,) = torch.autograd.grad(layer.free_energy(row), layer.centers)
        torch.testing.assert_close(grad, expected, rtol=1e-12, atol=1e-14)
    result = torch.func.vmap(layer)(rows)
    torch.testing.assert_close(result, layer(rows), rtol=0, atol=1e-14)


@all_alphas
def test_deterministic_mode_repeats_training_bitwise(alpha):
    rows = normal(256, 10, dtype=torch.float32)
    torch.use_deterministic_algorithms(True)
    try:
        finals = []
        for _ in range(2):
            layer = layer_at(rows[:8], 2.0, alpha)
            optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
            for _ in range(5):
                optimizer.zero_grad()
                layer.free_energy(rows).backward()
                optimizer.step()
            finals.append(layer.centers.detach().clone())
        assert torch.equal(*finals)
    finally:
        torch.use_deterministic_algorithms(False)


# -------------------------------------------------------------------------------- temperature


def test_sigma_is_annealed_by_the_schedule():
    schedule = nn.GeometricSchedule(8.0, 2.0, 4)
    layer = nn.SoftKMeansLayer(3, 2, sigma=8.0, schedule=schedule)
    assert layer.anneal(2) == pytest.approx(4.0)
    assert float(layer.sigma) == layer.anneal(2)
    assert layer.anneal(400) == 2.0
    assert [nn.LinearSchedule(3.0, 1.0, 2)(step) for step in range(4)] == [3.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize("make", [nn.GeometricSchedule, nn.LinearSchedule])
@pytest.mark.parametrize(
    "arguments, name", [((0, 1, 5), "start"), ((1, -1, 5), "end"), ((1, 1, 0), "n_steps")]
)
def test_schedules_out_of_range_are_errors(make, arguments, name):
    with pytest.raises(ValueError, match=name):
        make(*arguments)


def test_a_learned_sigma_stays_positive_and_cannot_be_scheduled():
    layer = layer_at(normal(3, 2), 0.7, learn_sigma=True)
    assert float(layer.sigma.detach()) == 0.7
    optimizer = torch.optim.Adam([layer.log_sigma], lr=0.5)
    rows = normal(20, 2)
    sizes = []
    for _ in range(60):
        optimizer.zero_grad()
        layer.weighted_distortion(rows).backward()
        optimizer.step()
        sizes.append(float(layer.sigma.detach()))
    assert 0 < sizes[-1] < 0.05  # never train it on this alone
    layer.set_sigma(2.0)
    assert float(layer.sigma.detach()) == 2.0
    with pytest.raises(ValueError, match="either learned or scheduled"):
        nn.SoftKMeansLayer(2, 2, sigma=1.0, learn_sigma=True, schedule=lambda step: 1.0)
    with pytest.raises(ValueError, match="schedule"):
        layer.anneal(0)


def test_sigma_has_no_minimum_on_either_loss_and_one_with_the_volume_term():
    """Statement 2: at fixed centres F rises and L falls as sigma falls."""
    true_sigma, centers = 0.6, torch.tensor([[-4.0, 0.0], [4.0, 0.0]], dtype=torch.float64)
    rows = centers.repeat_interleave(2000, 0) + normal(4000, 2, scale=true_sigma)
    sq_distances = nn.sq_distances(rows, centers)
    sigmas = torch.tensor([0.3, 0.6, 1.2, 2.4, 4.8, 9.6], dtype=torch.float64)
    energies = torch.stack([nn.free_energy(sq_distances, s) for s in sigmas])
    distortions = torch.stack([nn.weighted_distortion(sq_distances, s) for s in sigmas])
    assert (energies.diff() <= 0).all()
    assert (distortions.diff() >= 0).all()
    assert (energies / (2 * sigmas**2) + 2 * sigmas.log()).argmin() == 1


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan"), float("inf"), "auto", None])
def test_sigma_must_be_positive(sigma):
    with pytest.raises(ValueError, match="sigma must be a positive finite number"):
        nn.SoftKMeansLayer(2, 2, sigma=sigma)


@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (2.0, 2)])
def test_sizes_must_be_positive_integers(sizes):
    with pytest.raises(ValueError, match="must be an integer of at least 1"):
        nn.SoftKMeansLayer(*sizes, sigma=1.0)


def test_rows_of_another_number_of_features_are_an_error():
    with pytest.raises(ValueError, match="n_features=2"):
        nn.SoftKMeansLayer(3, 2, sigma=1.0)(torch.zeros(4, 3))


def test_a_learned_alpha_pushed_down_stays_in_its_interval():
    layer = nn.SoftKMeansLayer(4, 2, sigma=1.0, alpha=1.33, learn_alpha=True)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    rows = normal(32, 2, dtype=torch.float32)
    for _ in range(500):
        optimizer.zero_grad()
        loss = layer.alpha + layer.weighted_distortion(rows) + layer.free_energy(rows)
        loss.backward()
        optimizer.step()
        assert 1.0 < float(layer.alpha.detach()) < 2.0
    assert loss.isfinite()
    assert layer.centers.isfinite().all()


# -------------------------------------------------------------------------------------- guards


def test_mass_is_summed_over_the_epoch_in_training_mode_alone():
    layer, rows = layer_at(normal(3, 2, dtype=torch.float32)), normal(40, 2, dtype=torch.float32)
    expected = layer(rows).detach().double().sum(0)
    layer.end_epoch()
    for batch in rows.split(10):
        layer(batch)
    layer.eval()(rows)
    mass = layer.end_epoch()
    torch.testing.assert_close(mass, expected, rtol=1e-6, atol=0)
    assert mass.sum().item() == pytest.approx(40, rel=1e-6)
    assert (layer.cluster_mass == 0).all()
    silent = layer_at(normal(3, 2), track_mass=False)
    silent.free_energy(rows.double())
    assert (silent.cluster_mass == 0).all()


def test_an_epoch_warns_of_small_clusters_and_moves_dead_centers():
    rows = torch.cat([normal(50, 2), normal(50, 2, seed=1) + 20])
    layer = layer_at(torch.tensor([[0.0, 0.0], [0.5, 0.0], [1e3, 1e3]]).double(), alpha=1.5)
    layer.free_energy(rows)
    with pytest.warns(ConvergenceWarning, match=r"Clusters \[2\] hold less than 1%.*Decrease"):
        mass = layer.end_epoch(rows)
    assert mass[2] == 0
    assert (rows == layer.centers[2]).all(-1).any()
    assert (layer.centers[2] > 15).all()
    layer.free_energy(rows)
    assert (layer.end_epoch() > 5).all()


def test_several_dead_centers_move_to_different_places():
    rows = torch.tensor([[0.0], [1.0], [10.0], [-30.0]])
    layer = layer_at([[0.5], [99.0], [99.0]])
    layer.relocate(rows, [1, 2])
    assert layer.centers[1:].flatten().tolist() == [-30.0, 10.0]
    alone = layer_at([[99.0]])
    alone.relocate(rows, [0])
    assert alone.centers.item() == -30.0


# -------------------------------------------------------------------------------------- starts


def test_centers_start_on_rows_that_lie_apart():
    blobs = torch.tensor([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0], [50.0, 50.0]])
    rows = blobs.repeat(25, 1) + normal(100, 2, dtype=torch.float32)
    for seed in range(10):
        layer = nn.SoftKMeansLayer(4, 2, sigma=1.0).init_centers(rows.split(17), seed)
        assert all((rows == center).all(-1).any() for center in layer.centers)
        assert sorted(nn.sq_distances(layer.centers, blobs).argmin(-1).tolist()) == [0, 1, 2, 3]


def test_starts_repeat_and_leave_the_global_generator_alone():
    rows = normal(60, 2)
    dataset = torch.utils.data.TensorDataset(rows, torch.zeros(60))
    loader = torch.utils.data.DataLoader(dataset, batch_size=16)
    layer = nn.SoftKMeansLayer(3, 2, sigma=1.0, dtype=torch.float64)
    starts = [copy.deepcopy(layer).init_centers(loader, seed).centers for seed in (0, 0, 1)]
    whole = copy.deepcopy(layer).init_centers(rows, 0).centers
    assert torch.equal(starts[0], starts[1])
    assert torch.equal(starts[0], whole)
    assert not torch.equal(starts[0], starts[2])
    state = torch.get_rng_state()
    layer.init_centers(rows.split(16), np.random.RandomState(0))
    assert torch.equal(torch.get_rng_state(), state)


def test_first_draws_are_uniform_and_the_next_go_by_squared_distance():
    rows = torch.tensor([[0.0], [1.0], [3.0]])
    firsts, seconds = [], []
    layer = nn.SoftKMeansLayer(2, 1, sigma=1.0)
    random_state = np.random.RandomState(0)
    for _ in range(3000):
        first, second = layer.init_centers(rows.split(2), random_state).centers.flatten().tolist()
        firsts.append(first)
        if first == 0.0:
            seconds.append(second)
    assert np.mean(np.array(firsts) == 0.0) == pytest.approx(1 / 3, abs=0.03)
    assert np.mean(np.array(seconds) == 3.0) == pytest.approx(0.9, abs=0.03)


def test_more_centers_than_different_rows_repeat_some():
    layer = nn.SoftKMeansLayer(3, 1, sigma=1.0).init_centers(torch.tensor([[1.0], [2.0]]), 0)
    assert set(layer.centers.flatten().tolist()) == {1.0, 2.0}


def test_batches_must_be_readable_again_and_have_rows():
    layer = nn.SoftKMeansLayer(2, 1, sigma=1.0)
    with pytest.raises(ValueError, match="more than once"):
        layer.init_centers(batch for batch in [torch.zeros(3, 1)])
    with pytest.raises(ValueError, match="no rows"):
        layer.init_centers([torch.empty(0, 1)])


# -------------------------------------------------------------------------- criteria, saved layers


@all_alphas
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_criteria_are_the_methods_of_the_layer(alpha, reduction):
    layer, rows = layer_at(normal(3, 2), 0.8, alpha), normal(9, 2)
    for criterion, method in (
        (nn.FreeEnergyLoss, layer.free_energy),
        (nn.WeightedDistortionLoss, layer.weighted_distortion),
    ):
        result = criterion(alpha, reduction)(layer.distances(rows), layer.sigma)
        torch.testing.assert_close(result, method(rows, reduction=reduction), rtol=1e-14, atol=0)


@pytest.mark.parametrize("criterion", [nn.FreeEnergyLoss, nn.WeightedDistortionLoss])
def test_criteria_reject_what_they_do_not_know(criterion):
    with pytest.raises(ValueError, match="reduction must be one of"):
        criterion(reduction="median")
    with pytest.raises(ValueError, match="alpha"):
        criterion(alpha=0.5)
    with pytest.raises(ValueError, match="reduction must be one of"):
        nn.free_energy(torch.zeros(2, 3), 1.0, reduction="median")


def test_free_energy_lies_below_the_distortion_of_kmeans_and_the_weighted_one_above():
    sq_distances = nn.sq_distances(normal(50, 2), normal(5, 2, seed=1))
    hard = sq_distances.amin(-1)
    for alpha in (1.0, 1.25, 1.5, 2.0, 3.0):
        assert (nn.free_energy(sq_distances, 0.7, alpha, "none") <= hard + 1e-12).all()
        assert (nn.weighted_distortion(sq_distances, 0.7, alpha, "none") >= hard - 1e-12).all()


def test_a_layer_is_restored_from_its_state_and_from_a_pickle():
    layer = layer_at(normal(3, 2), 0.123456789, 1.5, learn_sigma=True)
    other = nn.SoftKMeansLayer(3, 2, sigma=1.0, alpha=1.5, learn_sigma=True, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    rows = normal(5, 2)
    for restored in (other, pickle.loads(pickle.dumps(layer))):
        assert torch.equal(restored(rows), layer(rows))
        assert float(restored.sigma.detach()) == 0.123456789
    assert "sigma=0.1235" in repr(layer)


@all_alphas
def test_sgd_with_the_rate_of_the_mass_follows_lloyd(alpha):
    """eta_j = 1 / (2 N_j): the step lands on the weighted means, below sigma_hard on Lloyd's."""
    rows = normal(300, 2) + 5 * torch.tensor([[0.0, 0], [1, 0], [0, 1]]).repeat(100, 1)
    layer = layer_at(rows[:3], 1e-3, alpha)
    centers = rows[:3].clone()
    for _ in range(6):
        layer.free_energy(rows, reduction="sum").backward()
        mass = layer.end_epoch()[:, None]
        with torch.no_grad():
            layer.centers -= layer.centers.grad / (2 * mass)
        layer.centers.grad = None
        labels = nn.sq_distances(rows, centers).argmin(-1)
        centers = torch.stack([rows[labels == j].mean(0) for j in range(3)])
        torch.testing.assert_close(layer.centers.detach(), centers, rtol=0, atol=1e-12)


def test_the_free_energy_is_not_batched_over_alpha():
    orders = torch.tensor([1.2, 1.5], dtype=torch.float64)
    distances = normal(2, 3).square()
    with pytest.raises(NotImplementedError, match="cannot be batched over alpha"):
        torch.func.vmap(lambda a: nn.free_energy(distances, 1.0, alpha=a))(orders)
