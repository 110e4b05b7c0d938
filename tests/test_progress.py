"""What is told of a fit while it runs."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reference
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans

X = reference.data("iris")
every = pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])


class Recorder:
    """A callback that counts tasks, and may end the fit after some."""

    def __init__(self, last=None):
        self.begun, self.ended, self.models, self.last = [], [], [], last
        self.set_up = self.torn_down = 0

    def setup(self, estimator, context):
        self.set_up += 1

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        self.ended.append(context.task_name)
        self.models.append(fitted_estimator)
        return self.last is not None and len(self.ended) >= self.last


# ---------------------------------------------------------------------------------- lines


@every
def test_a_line_has_what_changes_from_one_iteration_to_the_next(make, capsys):
    model = make(3, sigma=0.8, random_state=0, verbose=1).fit(X)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    numbers = [
        re.fullmatch(
            rf"run 0, iteration {i}: sigma 0\.8, objective (\S+), inertia (\S+), "
            r"softness (\S+)%, (?:center shift (\S+)|discarded)",
            line,
        ).groups()
        for i, line in enumerate(lines, start=1)
    ]
    objective, inertia, softness = np.array([n[:3] for n in numbers], dtype=float).T
    np.testing.assert_allclose(objective[0], model.objective_path_[0], rtol=1e-8)
    np.testing.assert_allclose(inertia[-1], model.inertia_, rtol=1e-2)
    np.testing.assert_allclose(softness, 100 * (1 - objective / inertia), atol=0.006)


# ------------------------------------------------------------------------------ callbacks


@pytest.fixture
def callbacks():
    return pytest.importorskip("sklearn.callback")


@every
@pytest.mark.parametrize("solver", ["em", "anderson", "lbfgs"])
def test_every_iteration_is_a_task(callbacks, solver, make):
    recorder = Recorder()
    model = make(3, solver=solver, random_state=0).set_callbacks(recorder)
    expected = clone(make(3, solver=solver, random_state=0)).fit(X)
    model.fit(X)
    tasks = [f"run 0, iteration {i}" for i in range(1, expected.n_iter_ + 1)]
    assert recorder.begun == ["fit", *tasks]
    assert recorder.ended == [*tasks, "fit"]
    assert (recorder.set_up, recorder.torn_down) == (1, 1)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)


@every
def test_a_callback_gets_a_model_that_predicts(callbacks, make):
    recorder = Recorder()
    model = make(3, random_state=0).set_callbacks(recorder).fit(X)
    np.testing.assert_array_equal(recorder.models[-2].predict(X), model.predict(X))
    scores = [other.score(X) for other in recorder.models]
    np.testing.assert_allclose(scores[-2:], model.score(X), rtol=1e-3)


@every
@pytest.mark.parametrize("solver", ["em", "anderson", "lbfgs"])
def test_a_callback_may_end_the_fit(callbacks, solver, make):
    model = make(3, sigma=1.0, tol=0.0, solver=solver, random_state=0)
    model.set_callbacks(Recorder(last=3)).fit(X)
    assert model.stop_reason_ == "callback"
    assert not model.converged_
    assert model.n_iter_ <= 4
    assert len(model.labels_) == len(X)


def test_errors_end_the_callbacks_too(callbacks):
    recorder = Recorder()
    with pytest.raises(ValueError, match="NaN"):
        SoftKMeans(3).set_callbacks(recorder).fit(np.full((5, 2), np.nan))
    assert recorder.torn_down == 1


def test_blocks_tell_callbacks_as_well(callbacks):
    recorder = Recorder()
    model = SoftKMeans(3, init=X[[0, 60, 120]]).set_callbacks(recorder)
    model.fit_blocks(lambda: iter([X[:80], X[80:]]))
    assert len(recorder.ended) == model.n_iter_ + 1


def test_dask_tells_callbacks_as_well(callbacks):
    array = pytest.importorskip("dask.array")
    from sklearn_softkmeans.dask import DaskSoftKMeans

    recorder = Recorder()
    model = DaskSoftKMeans(3, init=X[[0, 60, 120]]).set_callbacks(recorder)
    model.fit(array.from_array(X, chunks=(60, -1)))
    assert len(recorder.ended) == model.n_iter_ + 1
    assert recorder.ended[-1] == "fit"
    np.testing.assert_array_equal(recorder.models[-1].predict(X), model.labels_.compute())


def test_callbacks_of_scikit_learn(callbacks):
    pytest.importorskip("rich")
    monitor = callbacks.ScoringMonitor(scoring=None)  # it scores nothing where there is no y
    model = SoftKMeans(3, random_state=0).set_callbacks(callbacks.ProgressBar(), monitor).fit(X)
    assert len(monitor.get_logs().data) == model.n_iter_ + 1
    bar = callbacks.ProgressBar()
    make_pipeline(StandardScaler(), SoftKMeans(3)).set_callbacks(bar).fit(X)
    search = GridSearchCV(SoftKMeans(random_state=0), {"n_clusters": [2, 3]}, cv=2)
    assert search.set_callbacks(callbacks.ProgressBar()).fit(X).best_params_["n_clusters"] in (2, 3)
