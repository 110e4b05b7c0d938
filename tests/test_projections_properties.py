"""What holds for the maps at any scores: found by search over many."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sklearn_softkmeans.projections import entmax

tables = arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 9)),
    elements=st.floats(-50, 50, allow_subnormal=False),
)
alphas = st.sampled_from([1.0, 1.2, 1.5, 1.8, 2.0, 3.5])


@given(tables, alphas)
def test_rows_are_probabilities(scores, alpha):
    result = entmax(scores, alpha)
    assert ((result >= 0) & (result <= 1)).all()
    np.testing.assert_allclose(result.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@given(tables, alphas)
def test_order_is_preserved(scores, alpha):
    for row, mass in zip(scores, entmax(scores, alpha), strict=True):
        assert (np.diff(mass[np.argsort(row)]) >= -1e-15).all()


@given(tables, alphas, st.floats(-1e3, 1e3))
def test_a_shift_changes_nothing(scores, alpha, shift):
    # The shifted scores carry a rounding of about 1e-13 themselves.
    np.testing.assert_allclose(
        entmax(scores + shift, alpha), entmax(scores, alpha), rtol=0, atol=1e-4
    )


@given(tables, alphas, st.randoms(use_true_random=False))
def test_columns_can_be_permuted(scores, alpha, random):
    columns = list(range(scores.shape[1]))
    random.shuffle(columns)
    np.testing.assert_allclose(
        entmax(scores[:, columns], alpha),
        entmax(scores, alpha)[:, columns],
        rtol=0,
        atol=1e-7 if alpha > 2 else 1e-13,
    )


@given(tables)
def test_support_shrinks_as_alpha_grows(scores):
    smaller = None
    for alpha in (1.2, 1.5, 1.8, 2.0):
        result = entmax(scores, alpha)
        if smaller is not None:
            assert (result[smaller == 0] <= 1e-12).all()
        smaller = result
