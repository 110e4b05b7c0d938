"""Pictures: what is drawn is what was computed."""

import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reference
from sklearn_softkmeans import EntmaxKMeans, SoftKMeans, soft_kmeans_path
from sklearn_softkmeans.inspection import (
    AnnealingDisplay,
    CollapsePathDisplay,
    MembershipDisplay,
)

matplotlib.use("Agg")

IRIS = reference.data("iris")
PLANE = reference.blobs(3, n_samples=90, seed=2)


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def path():
    return soft_kmeans_path(IRIS, 3, n_sigmas=30)


@pytest.fixture(scope="module")
def plane_path():
    return soft_kmeans_path(PLANE, 3, alpha=1.5, n_sigmas=15)


# --------------------------------------------------------------------- CollapsePathDisplay


def test_trajectories_in_two_features_are_the_centres(plane_path):
    display = CollapsePathDisplay.from_path(plane_path, PLANE)
    assert len(display.lines_) == 3
    for j, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_xydata(), plane_path.centers[:, j])
    rows = display.ax_.collections[0].get_offsets()
    np.testing.assert_array_equal(rows, PLANE)
    assert display.ax_.get_xlabel() == "feature 0"
    assert display.figure_ is display.ax_.figure
    assert len({line.get_color() for line in display.lines_}) == 3
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    highest, lowest = plane_path.sigmas[[0, -1]]
    assert texts == [f"sigma = {highest:.3g}", f"sigma = {lowest:.3g}"]


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_trajectories_in_many_features_are_on_principal_axes(path, container):
    display = CollapsePathDisplay.from_path(path, container(IRIS))
    scores = PCA(2).fit(IRIS).transform(path.centers[:, 1])
    np.testing.assert_allclose(np.abs(display.centers[:, 1]), np.abs(scores), atol=1e-9)
    assert display.points.shape == (150, 2)
    assert display.ax_.get_ylabel() == "second principal component"


def test_without_rows_the_axes_are_those_of_the_centres(path):
    display = CollapsePathDisplay.from_path(path)
    assert display.points is None
    assert display.centers.shape == (30, 3, 2)
    assert not display.ax_.collections


def test_bifurcation_is_a_coordinate_against_sigma(plane_path):
    display = CollapsePathDisplay.from_path(plane_path, kind="bifurcation")
    assert display.ax_.get_xscale() == "log"
    for j, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_xdata(), plane_path.sigmas)
        np.testing.assert_array_equal(line.get_ydata(), plane_path.centers[:, j, 0])


def test_errors_are_distances_to_the_matching_centres_of_kmeans(path):
    solution = KMeans(3, n_init=3, random_state=0, tol=0).fit(IRIS).cluster_centers_
    display = CollapsePathDisplay.from_path(path, reference=solution[[2, 0, 1]], kind="error")
    nearest = reference.sq_distances(path.centers[-1], solution).argmin(axis=1)
    expected = np.linalg.norm(path.centers - solution[nearest], axis=2).max(axis=1)
    np.testing.assert_allclose(display.errors, expected)
    (line,) = display.lines_
    np.testing.assert_array_equal(line.get_xdata(), path.sigmas)
    assert display.ax_.get_yscale() == "log"


def test_the_slope_is_that_of_small_errors_above_rounding():
    sigmas = np.geomspace(1.0, 1e-6, 25)
    errors = np.where(sigmas > 0.3, 5.0, 3.0 * sigmas**2 + 1e-9)
    centers = np.stack([[[0.0], [10.0 + error]] for error in errors])
    path = {"sigmas": sigmas, "centers": centers}
    display = CollapsePathDisplay.from_path(
        path, reference=[[0.0], [10.0]], kind="error", name="softmax"
    )
    assert display.slope_ == pytest.approx(2.0, abs=0.02)
    (text,) = display.ax_.get_legend().get_texts()
    assert text.get_text() == "softmax, slope 2"


def test_errors_that_are_exactly_zero_have_no_slope():
    path = {"sigmas": np.array([1.0, 0.5, 0.0]), "centers": np.ones((3, 2, 1))}
    display = CollapsePathDisplay.from_path(path, kind="error")
    assert np.isnan(display.slope_)
    assert len(display.lines_[0].get_xdata()) == 0


def test_two_paths_share_axes_with_names_and_colours(path, plane_path):
    first = CollapsePathDisplay.from_path(path, kind="error", name="softmax")
    second = CollapsePathDisplay.from_path(plane_path, kind="error", name="entmax", ax=first.ax_)
    assert second.ax_ is first.ax_
    assert first.lines_[0].get_color() != second.lines_[0].get_color()
    texts = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert texts[0].startswith("softmax, slope")
    assert texts[1].startswith("entmax")


def test_keyword_arguments_reach_the_lines(path):
    for kind in ("trajectories", "bifurcation", "error"):
        display = CollapsePathDisplay.from_path(path, kind=kind, linewidth=5.0, name="a")
        assert {line.get_linewidth() for line in display.lines_} == {5.0}
        again = display.plot(kind)
        assert again is display


def test_column_names_of_a_data_frame_are_on_the_axes(plane_path):
    frame = pd.DataFrame(PLANE, columns=["length", "width"])
    display = CollapsePathDisplay.from_path(plane_path, frame)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("length", "width")


@pytest.mark.parametrize("options, message", [
    ({"kind": "tree"}, "kind must be one of"),
    ({"X": PLANE}, "X has 2 features, but the centers of the path have 4"),
    ({"reference": PLANE[:3]}, "The shape of reference"),
])  # fmt: skip
def test_bad_input_of_a_path_is_an_error(path, options, message):
    with pytest.raises(ValueError, match=message):
        CollapsePathDisplay.from_path(path, **options)


def test_one_feature_has_no_trajectory_in_the_plane():
    path = soft_kmeans_path(IRIS[:, :1], 2, n_sigmas=3)
    with pytest.raises(ValueError, match="needs two features"):
        CollapsePathDisplay.from_path(path)
    assert CollapsePathDisplay.from_path(path, kind="bifurcation").centers.shape == (3, 2, 1)


# ----------------------------------------------------------------------- MembershipDisplay


@pytest.mark.parametrize("kind", ["shares", "perplexity"])
@pytest.mark.parametrize("make", [SoftKMeans, EntmaxKMeans])
def test_every_pixel_is_what_the_estimator_says(make, kind):
    fitted = make(3, sigma=1.2, random_state=0).fit(PLANE)
    display = MembershipDisplay.from_estimator(fitted, PLANE, kind=kind, grid_resolution=30)
    assert display.responsibilities.shape == (30, 30, 3)
    point = [[display.xx0[4], display.xx1[21]]]
    share = fitted.predict_proba(point)[0]
    np.testing.assert_allclose(display.responsibilities[21, 4], share, rtol=1e-12)
    perplexity = np.exp(-reference.negative_entropy(share, 1))
    assert display.perplexity[21, 4] == pytest.approx(perplexity, rel=1e-12)
    image = np.asarray(display.surface_.get_array())
    assert image.shape == ((30, 30, 3) if kind == "shares" else (30, 30))
    low, high = PLANE.min(axis=0), PLANE.max(axis=0)
    np.testing.assert_allclose(display.surface_.get_extent()[0], low[0] - 0.1 * (high - low)[0])
    np.testing.assert_allclose(display.surface_.get_extent()[3], high[1] + 0.1 * (high - low)[1])
    assert display.contours_ is not None
    assert display.figure_ is display.ax_.figure
    centers = display.ax_.collections[-1].get_offsets()
    np.testing.assert_array_equal(centers, fitted.cluster_centers_)


def test_hard_points_have_the_colour_of_their_cluster_and_shared_ones_the_mixture():
    fitted = EntmaxKMeans.from_centers([[-1.0, 0.0], [1.0, 0.0]], sigma=0.4)
    X = [[-1.0, -1.0], [1.0, 1.0]]
    display = MembershipDisplay.from_estimator(fitted, X, grid_resolution=41, margin=0.0)
    image = np.asarray(display.surface_.get_array())
    left, middle, right = image[20, 0], image[20, 20], image[20, 40]
    np.testing.assert_allclose(middle, 0.5 * (left + right), atol=1e-9)
    assert np.abs(left - right).max() > 0.2
    np.testing.assert_array_equal(display.labels, [0, 1])


def test_where_all_is_hard_there_are_no_contours():
    fitted = EntmaxKMeans(3, sigma=0.0, random_state=0).fit(PLANE)
    assert MembershipDisplay.from_estimator(fitted, PLANE, grid_resolution=20).contours_ is None


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_pipelines_and_many_clusters_are_drawn(frame):
    X = frame({"length": PLANE[:, 0], "width": PLANE[:, 1]})
    fitted = make_pipeline(StandardScaler(), SoftKMeans(9, random_state=0)).fit(X)
    display = MembershipDisplay.from_estimator(fitted, X, grid_resolution=20)
    assert display.centers is None
    assert display.responsibilities.shape == (20, 20, 9)
    assert display.ax_.get_ylabel() == "width"


@pytest.mark.parametrize("kind", ["shares", "perplexity"])
def test_keyword_arguments_reach_the_image(kind):
    fitted = SoftKMeans(3, random_state=0).fit(PLANE)
    options = {"kind": kind, "grid_resolution": 20, "alpha": 0.25, "aspect": "equal"}
    display = MembershipDisplay.from_estimator(fitted, PLANE, **options)
    assert display.surface_.get_alpha() == 0.25
    assert display.ax_.get_aspect() == 1.0
    assert display.plot("perplexity", cmap="magma").surface_.get_cmap().name == "magma"


def test_given_axes_are_drawn_on():
    ax = matplotlib.figure.Figure().add_subplot()
    fitted = SoftKMeans(3, random_state=0).fit(PLANE)
    assert MembershipDisplay.from_estimator(fitted, PLANE, grid_resolution=20, ax=ax).ax_ is ax


@pytest.mark.parametrize("options, message", [
    ({"kind": "colours"}, "kind must be 'shares' or 'perplexity'"),
    ({"grid_resolution": 1}, "grid_resolution must be at least 2"),
    ({"margin": -1.0}, "margin at least 0"),
    ({"X": IRIS}, "MembershipDisplay draws two features, but X has 4"),
])  # fmt: skip
def test_bad_input_of_an_estimator_is_an_error(options, message):
    fitted = SoftKMeans(3, random_state=0).fit(PLANE)
    with pytest.raises(ValueError, match=message):
        MembershipDisplay.from_estimator(fitted, options.pop("X", PLANE), **options)


def test_without_matplotlib_the_error_names_the_remedy(monkeypatch, path):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="CollapsePathDisplay draws with matplotlib") as caught:
        CollapsePathDisplay.from_path(path)
    assert 'pip install "sklearn-softkmeans[plot]"' in str(caught.value)


# ------------------------------------------------------------------------ AnnealingDisplay


@pytest.mark.parametrize("container", [np.array, sparse.csr_array])
def test_the_tree_joins_each_centre_to_its_origin(container):
    display = AnnealingDisplay.from_data(container(PLANE), 3, color="0.2")
    lines = display.lines_
    assert lines == list(display.ax_.lines)
    assert len(lines) == display.n_centers[1:].sum()
    assert (np.diff(display.n_centers) >= 0).all()
    heights = display.centers[0][:, 0]
    for line in lines[: display.n_centers[1]]:
        np.testing.assert_array_equal(line.get_xdata(), display.sigmas[:2])
        assert line.get_ydata()[0] in heights
        assert line.get_color() == "0.2"
    assert display.ax_.xaxis_inverted()
    assert len(display.objectives) == len(display.sigmas)


def test_the_tree_of_many_features_is_on_principal_components():
    display = AnnealingDisplay.from_data(IRIS, 3, axis=1)
    assert display.ax_.get_ylabel() == "centers: second principal component"
    frame = pd.DataFrame(IRIS[:, :2], columns=["length", "width"])
    display = AnnealingDisplay.from_data(frame, 3, sample_weight=np.ones(len(frame)))
    assert display.ax_.get_ylabel() == "centers: length"


def test_the_tree_can_be_drawn_again_elsewhere():
    import matplotlib.pyplot as plt

    display = AnnealingDisplay(sigmas=np.array([2.0, 1.0]), centers=[PLANE[:1], PLANE[:2]],
                               objectives=np.zeros(2))  # fmt: skip
    figure, ax = plt.subplots()
    assert display.plot(axis=1, ax=ax) is display
    assert display.figure_ is figure
    assert ax.get_ylabel() == "centers: axis 1"


@pytest.mark.parametrize("n_clusters", [0, len(PLANE) + 1])
def test_the_tree_needs_a_number_of_clusters_that_can_be(n_clusters):
    with pytest.raises(ValueError, match=r"n_clusters ?="):
        AnnealingDisplay.from_data(PLANE, n_clusters)


@pytest.mark.parametrize("n_clusters", [2.5, "3"])
def test_the_tree_needs_a_whole_number_of_clusters(n_clusters):
    with pytest.raises(TypeError, match="n_clusters must be an instance of"):
        AnnealingDisplay.from_data(PLANE, n_clusters)


@pytest.mark.parametrize("X, axis", [(PLANE, 2), (PLANE, -1), (PLANE[:, :1], 1)])
def test_the_tree_has_no_more_axes_than_the_picture(X, axis):
    with pytest.raises(ValueError, match="axis must be one of"):
        AnnealingDisplay.from_data(X, 3, axis=axis)
    with pytest.raises(ValueError, match="axis must be one of"):
        AnnealingDisplay.from_data(X, 3).plot(axis=axis)


@pytest.mark.parametrize(("n_clusters", "sigmas"), [(1, [1.0]), (1, [1.0, 0.5]), (3, [9.0, 8.0])])
def test_centres_that_are_all_equal_are_drawn(n_clusters, sigmas):
    path = soft_kmeans_path(IRIS, n_clusters, sigmas=sigmas)
    display = CollapsePathDisplay.from_path(path, kind="bifurcation")
    np.testing.assert_allclose(display.centers, 0.0, atol=1e-3)
