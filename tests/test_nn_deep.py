"""Autoencoder and clusters trained together."""

import copy
import pickle

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

torch = pytest.importorskip("torch")

from sklearn_softkmeans.nn import DeepSoftKMeans, SoftKMeansLayer  # noqa: E402
from sklearn_softkmeans.nn import _training as training  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Networks this small gain nothing from threads, which wait for each other on busy cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


SMALL = {"encoder": (8, 2), "pretrain_epochs": 2, "max_epochs": 3, "batch_size": 64}


def lifted_blobs(seed, n_clusters=5, per_cluster=200, n_features=20):
    """Blobs in the plane, and where a fixed linear map takes them."""
    rng = np.random.RandomState(seed)
    centers = 6.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 0.5]])[:n_clusters]
    truth = np.repeat(np.arange(n_clusters), per_cluster)
    plane = centers[truth] + rng.normal(size=(len(truth), 2))
    lift = np.random.RandomState(0).normal(size=(2, n_features))
    return (plane @ lift / 6.0).astype(np.float32), truth


X, TRUTH = lifted_blobs(0, per_cluster=40)


def fitted(**options):
    return DeepSoftKMeans(5, random_state=0, **{**SMALL, **options}).fit(X)


def same_networks(left, right):
    pairs = zip(left.state_dict().values(), right.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@parametrize_with_checks([DeepSoftKMeans(3, random_state=0, **SMALL)])
def test_scikit_learn_check(estimator, check):
    check(estimator)


# ------------------------------------------------------------------------- what training is for


@pytest.mark.parametrize("seed", range(5))
def test_training_keeps_the_clusters_of_lifted_blobs(seed):
    rows, truth = lifted_blobs(seed)
    deep = DeepSoftKMeans(
        5, encoder=(32, 2), pretrain_epochs=10, max_epochs=20, tol=0.0, random_state=seed
    ).fit(rows)
    before = adjusted_rand_score(truth, deep.initial_labels_)
    assert adjusted_rand_score(truth, deep.labels_) >= before - 0.02
    share = deep.cluster_mass_ / deep.cluster_mass_.sum()
    assert np.exp(-(share * np.log(share)).sum()) >= 4
    assert 1 <= deep.n_iter_ <= 20
    assert deep.stop_reason_ in ("tol", "max_epochs")


def accuracy(truth, labels):
    """Share of the rows whose cluster is matched with their class, by the best matching."""
    table = confusion_matrix(truth, labels)
    return table[linear_sum_assignment(-table)].sum() / len(truth)


def test_training_improves_the_clusters_of_digits():
    rows, truth = load_digits(return_X_y=True)
    rows = (rows / 16).astype(np.float32)
    deep = DeepSoftKMeans(10, pretrain_epochs=30, max_epochs=25, random_state=0).fit(rows)
    assert len(set(deep.labels_)) == 10
    assert accuracy(truth, deep.labels_) > accuracy(truth, deep.initial_labels_) + 0.005


def test_targets_come_from_all_rows_and_not_from_batches():
    """The squares of the responsibilities at the centroids of all embedded rows."""
    rows = torch.from_numpy(X).double()
    networks = torch.nn.ModuleList([torch.nn.Linear(20, 2), torch.nn.Linear(2, 20)]).double()
    layer = SoftKMeansLayer(3, 2, sigma=1.0, dtype=torch.float64)
    embedded = networks[0](rows).detach()
    layer.centers.data = embedded[[0, 90, 199]].clone()
    start = copy.deepcopy(layer)
    state = training.JointTraining(networks, None, layer, rows, batch_size=7)
    assert state.full_step(0.3) == 1.0
    spread = float(embedded.var(0, correction=0).sum())
    start.set_sigma(0.3 * spread**0.5)
    resp = start(embedded).detach()
    torch.testing.assert_close(layer.centers.data, resp.T @ embedded / resp.sum(0)[:, None])
    resp = layer(embedded).detach()
    expected = resp**2 / (resp**2).sum(1, keepdim=True)
    torch.testing.assert_close(state.targets, expected)
    torch.testing.assert_close(state.labels, resp.argmax(1))


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_clustering_loss_has_the_gradient_of_its_definition(alpha):
    """In the scores: responsibilities less targets; 0 where they agree; blind to the scale."""
    rows = torch.from_numpy(X).double()
    networks = torch.nn.ModuleList([torch.nn.Linear(20, 2), torch.nn.Linear(2, 20)]).double()
    layer = SoftKMeansLayer(3, 2, sigma=1.0, alpha=alpha, dtype=torch.float64)
    layer.centers.data = networks[0](rows).detach()[[0, 90, 199]]
    state = training.JointTraining(networks, None, layer, rows, batch_size=64)
    state.full_step(0.5)
    embedded = networks[0](rows).detach().requires_grad_()
    loss = state._clustering(embedded, state.responsibilities)
    (grad,) = torch.autograd.grad(loss, embedded)
    assert loss.item() == pytest.approx(0.0, abs=1e-12)
    assert grad.abs().max() < 1e-12
    loss = state._clustering(embedded, state.targets)
    assert float(loss.detach()) > 1e-4
    (grad,) = torch.autograd.grad(loss, embedded)
    # Along the ray from the mean, rows and centers alike, nothing changes.
    centers, mean = layer.centers.detach(), state.mean
    layer.centers.data = mean + 3 * (centers - mean)
    state.mean, state.spread = mean, 9 * state.spread
    layer.set_sigma(3 * float(layer.sigma))
    scaled = state._clustering(mean + 3 * (embedded - mean), state.targets)
    torch.testing.assert_close(scaled, loss, rtol=1e-10, atol=0)


def test_dead_centers_move_during_training():
    rows = torch.from_numpy(X).double()
    networks = torch.nn.ModuleList([torch.nn.Linear(20, 2), torch.nn.Linear(2, 20)]).double()
    layer = SoftKMeansLayer(4, 2, sigma=1.0, alpha=1.5, dtype=torch.float64)
    layer.centers.data = torch.tensor([[0.0, 0.0], [1e4, 0], [0, 1e4], [1e4, 1e4]]).double()
    state = training.JointTraining(networks, None, layer, rows, batch_size=64)
    state.full_step(0.05)
    assert (state.responsibilities.sum(0) >= 1.0).all()


# --------------------------------------------------------------------------------- bookkeeping


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_attributes_describe_the_final_state(dtype, alpha):
    rows = X.astype(dtype)
    deep = DeepSoftKMeans(5, alpha=alpha, random_state=0, **SMALL).fit(rows)
    shares = deep.transform(rows)
    assert shares.dtype == deep.cluster_centers_.dtype == deep.embed(rows).dtype == dtype
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(deep.labels_, shares.argmax(1))
    np.testing.assert_array_equal(deep.predict(rows), deep.labels_)
    np.testing.assert_array_equal(deep.predict_proba(rows), shares)
    np.testing.assert_allclose(deep.cluster_mass_, shares.sum(0), rtol=1e-4)
    embedded = deep.embed(rows)
    spread = np.sqrt(((embedded - embedded.mean(0)) ** 2).sum(1).mean())
    assert deep.sigma_ == pytest.approx(deep.sigma * spread, rel=1e-4)
    assert len(deep.pretrain_history_) == 2
    assert len(deep.history_) == deep.n_iter_
    assert deep.history_[0]["label_change"] == 1.0
    assert all(np.isfinite(list(record.values())).all() for record in deep.history_)
    assert len(deep.get_feature_names_out()) == 5


def test_pretraining_and_training_reduce_their_losses():
    deep = fitted(pretrain_epochs=40, max_epochs=30, tol=0.0)
    assert deep.pretrain_history_[-1] < 0.5 * deep.pretrain_history_[0]
    assert deep.history_[-1]["clustering"] < deep.history_[0]["clustering"]


def test_training_stops_when_labels_change_little_and_sigma_has_arrived():
    assert fitted(max_epochs=40, tol=1.0).n_iter_ == 1
    deep = fitted(max_epochs=40, tol=1.0, sigma_start=0.6)
    assert deep.stop_reason_ == "tol"
    assert deep.n_iter_ == 20
    sigmas = [record["sigma"] for record in deep.history_]
    assert sigmas[0] == 0.6
    np.testing.assert_allclose(np.diff(np.log(sigmas)), np.log(0.5) / 20, rtol=1e-9)
    never = fitted(max_epochs=4, tol=0.0, sigma_start=5.0)
    assert never.stop_reason_ == "max_epochs"
    assert never.n_iter_ == 4


def test_without_joint_epochs_it_is_kmeans_on_the_pretrained_embedding():
    deep = fitted(max_epochs=0, sigma=1e-3)
    np.testing.assert_array_equal(deep.labels_, deep.initial_labels_)
    assert deep.history_ == []
    assert fitted(pretrain_epochs=0).pretrain_history_ == []


def test_verbose_prints_a_line_for_each_epoch(capsys):
    fitted(verbose=1, tol=0.0)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["epoch 0", "epoch 1", "epoch 2"]


def test_a_small_cluster_is_reported():
    rows = np.vstack([X, np.full((1, 20), 300.0)]).astype(np.float32)
    with pytest.warns(ConvergenceWarning, match=r"hold less than 1%.*Decrease sigma"):
        DeepSoftKMeans(
            2,
            encoder=torch.nn.Linear(20, 2),
            decoder=torch.nn.Linear(2, 20),
            sigma=0.01,
            pretrain_epochs=1,
            max_epochs=0,
        ).fit(rows)


# ------------------------------------------------------------------ determinism, saving, pipelines


def test_fits_repeat_bitwise_and_leave_the_global_generators_alone():
    state = torch.get_rng_state()
    first, second, third = fitted(), fitted(), DeepSoftKMeans(5, random_state=1, **SMALL).fit(X)
    assert torch.equal(torch.get_rng_state(), state)
    assert same_networks(first.encoder_, second.encoder_)
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    assert not same_networks(first.encoder_, third.encoder_)


def test_a_saved_model_answers_alike_on_new_rows():
    deep = fitted()
    new, _ = lifted_blobs(9, per_cluster=7)
    restored = pickle.loads(pickle.dumps(deep))
    np.testing.assert_array_equal(restored.transform(new), deep.transform(new))
    np.testing.assert_allclose(deep.transform(new)[3:4], deep.transform(new[3:4]), atol=1e-5)


def test_it_works_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), DeepSoftKMeans(5, random_state=0, **SMALL))
    assert pipeline.fit_predict(X).shape == (200,)
    assert pipeline.transform(X).shape == (200, 5)


# --------------------------------------------------------------------------------------- modules


def modules():
    encoder = torch.nn.Sequential(torch.nn.Linear(20, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    return {"encoder": encoder, "decoder": torch.nn.Linear(3, 20)}


def test_modules_are_copied_and_trained():
    given = modules()
    before = copy.deepcopy(given["encoder"])
    deep = fitted(**given)
    assert same_networks(given["encoder"], before)
    assert not same_networks(deep.encoder_, before)
    assert deep.cluster_centers_.shape == (5, 3)
    assert clone(deep).fit(X).labels_.shape == (200,)
    assert fitted(encoder=(4, 3), decoder=given["decoder"]).embed(X).shape == (200, 3)


def test_modules_with_modes_are_trained_and_evaluated():
    encoder = torch.nn.Sequential(
        torch.nn.Linear(20, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(), torch.nn.Linear(8, 2)
    )
    deep = fitted(encoder=encoder, decoder=torch.nn.Linear(2, 20))
    np.testing.assert_array_equal(deep.transform(X), deep.transform(X))
    assert not deep.encoder_.training
    assert (deep.encoder_[1].running_mean != 0).any()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoder": torch.nn.Linear(20, 2)}, "needs a decoder"),
        ({"encoder": ()}, "positive sizes"),
        ({"encoder": (8, 0)}, "positive sizes"),
        ({"encoder": (8, 2.5)}, "positive sizes"),
        ({"sigma": 0}, "sigma"),
        ({"alpha": 0.5}, "alpha"),
        ({"cluster_weight": -1}, "cluster_weight"),
        ({"learning_rate": 0}, "learning_rate"),
    ],
)
def test_parameters_out_of_range_are_errors(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(**options)


def test_fewer_rows_than_clusters_are_an_error():
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=5"):
        DeepSoftKMeans(5, **SMALL).fit(X[:3])


def test_equal_rows_have_an_answer():
    with pytest.warns(ConvergenceWarning):
        deep = DeepSoftKMeans(2, random_state=0, **SMALL).fit(np.ones((10, 3)))
    assert np.isfinite(deep.transform(np.ones((2, 3)))).all()
