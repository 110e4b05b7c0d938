"""Fits on a cluster of two workers; `test_dask.py` runs them in a process of its own."""

import os
import warnings

import dask
import distributed
import pytest
from dask import delayed

from sklearn_softkmeans import EntmaxKMeans, SoftKMeans
from sklearn_softkmeans.dask import DaskEntmaxKMeans, DaskSoftKMeans
from test_dask import BLOCKS, START, WEIGHTS, X, assert_same_fit, chunked


@pytest.fixture
def client():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with (
            distributed.LocalCluster(**settings) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
            client.as_current(),
            # By name: a worker that is started in place of another one gets these settings too.
            dask.config.set(scheduler="dask.distributed"),
        ):
            yield client


def load_or_die(part, flag):
    """A block of rows; the process that is the first to load it dies instead."""
    try:
        with open(flag, "x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        return X[part]
    os._exit(1)


def test_a_cluster_gives_the_fit_of_rows_in_memory(client):
    expected = SoftKMeans(6, init=START).fit(X, sample_weight=WEIGHTS)
    model = DaskSoftKMeans(6, init=START).fit(chunked(), sample_weight=WEIGHTS)
    assert_same_fit(model, expected)


def test_a_worker_that_dies_during_a_fit_does_not_change_it(client, tmp_path):
    flag = tmp_path / "died"
    workers = set(client.run(os.getpid).values())
    blocks = [delayed(X[part]) for part in BLOCKS]
    blocks[6] = delayed(load_or_die, pure=False)(BLOCKS[6], str(flag))
    model = DaskEntmaxKMeans(6, init=START).fit(blocks)
    assert int(flag.read_text()) in workers
    assert_same_fit(model, EntmaxKMeans(6, init=START).fit(X))
