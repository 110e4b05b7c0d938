"""Fitted estimators as ONNX graphs, by converters for skl2onnx.

Needs the extra "onnx": ``pip install "sklearn-softkmeans[onnx]"``.
"""

import numpy as np

try:
    from onnx import TensorProto
    from skl2onnx import update_registered_converter
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, guess_tensor_type
except ImportError as error:
    raise ImportError(
        "sklearn_softkmeans.onnx needs skl2onnx, which is not installed. Install it with "
        'pip install "sklearn-softkmeans[onnx]".'
    ) from error

from ._entmax_kmeans import EntmaxKMeans
from ._soft_kmeans import SoftKMeans

__all__ = ["register_converters"]

_HALVINGS = 60  # of an interval of length 1: below the resolution of its ends
_LARGEST_ALPHA = 4.0  # beyond it rounding of the threshold changes shares by more than 1e-5


def register_converters() -> None:
    """Make skl2onnx convert `SoftKMeans` and `EntmaxKMeans`, alone and in a Pipeline.

    The graph has two outputs, those of `predict` and `predict_proba`: `label` (int64) and
    `responsibilities`, which are float64 where the input is and float32 otherwise. It computes in
    float64, and agrees with the estimator to 1e-5. Conversion raises a ValueError where `alpha` is
    above 4.

    With the option ``{"labels": False}`` there is only the second output, as it must be where
    another step of a Pipeline follows.

    Examples
    --------
    >>> import numpy as np
    >>> from skl2onnx import to_onnx
    >>> from sklearn_softkmeans import SoftKMeans
    >>> from sklearn_softkmeans.onnx import register_converters
    >>> register_converters()
    >>> X = np.array([[-1.0], [1.0]], dtype=np.float32)
    >>> model = to_onnx(SoftKMeans.from_centers(X, sigma=1.0), X)
    >>> [output.name for output in model.graph.output]
    ['label', 'responsibilities']
    """
    for estimator in (SoftKMeans, EntmaxKMeans):
        update_registered_converter(
            estimator,
            f"SklearnSoftkmeans{estimator.__name__}",
            _set_shapes,
            _convert,
            parser=_declare_outputs,
            options={"labels": [True, False]},
        )


def _declare_outputs(scope, model, inputs, custom_parsers=None):
    operator = scope.declare_local_operator(f"SklearnSoftkmeans{type(model).__name__}", model)
    operator.inputs = inputs
    if scope.get_options(model, {"labels": True})["labels"]:
        operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
    kind = guess_tensor_type(inputs[0].type)
    operator.outputs.append(scope.declare_local_variable("responsibilities", kind))
    return operator.outputs


def _set_shapes(operator):
    model, (rows,) = operator.raw_operator, operator.inputs
    if model._alpha > _LARGEST_ALPHA:
        raise ValueError(
            f"alpha={model._alpha} cannot be converted to ONNX with an error below 1e-5. "
            f"Use alpha of at most {_LARGEST_ALPHA:.0f}."
        )
    *label, responsibilities = operator.outputs
    for variable in label:
        variable.type.shape = [rows.get_first_dimension()]
    shape = [rows.get_first_dimension(), len(model.cluster_centers_)]
    responsibilities.type = guess_tensor_type(rows.type).__class__(shape)


def _convert(scope, operator, container):
    graph = _Graph(scope, container)
    model, (rows,) = operator.raw_operator, operator.inputs
    *label, responsibilities = operator.outputs
    scores = graph.scores(rows.full_name, model)
    nearest = graph("ArgMax", scores, axis=1, keepdims=0)
    for variable in label:
        graph.name("Identity", variable, nearest)
    shares = graph.shares(scores, nearest, model)
    kind = TensorProto.FLOAT if isinstance(responsibilities.type, FloatTensorType) else None
    graph.name("Cast", responsibilities, shares, to=kind or TensorProto.DOUBLE)


class _Graph:
    """Nodes in float64; a call adds one and returns the name of its output."""

    def __init__(self, scope, container):
        self._scope = scope
        self._container = container

    def __call__(self, kind, *inputs, **attributes):
        output = self._scope.get_unique_variable_name("softkmeans")
        self._add(kind, inputs, output, attributes)
        return output

    def name(self, kind, variable, *inputs, **attributes):
        self._add(kind, inputs, variable.full_name, attributes)

    def _add(self, kind, inputs, output, attributes):
        node = self._scope.get_unique_operator_name(kind)
        version = self._container.target_opset_any_domain("")
        self._container.add_node(
            kind, list(inputs), [output], name=node, op_version=version, **attributes
        )

    def constant(self, values):
        values = np.asarray(values)
        kind = TensorProto.INT64 if values.dtype == np.int64 else TensorProto.DOUBLE
        name = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, kind, list(values.shape), values.ravel().tolist())
        return name

    def sum_of_rows(self, values):
        return self("ReduceSum", values, self.constant(np.array([1])), keepdims=1)

    def scores(self, rows, model):
        """Scores less those of the mean center: -d^2/2 over sigma^2, or over 1 where that is 0."""
        centers = model.cluster_centers_.astype(np.float64)
        middle = centers.mean(axis=0)
        centers = centers - middle
        precision = 1.0 / (model.sigma_**2 or 1.0)
        rows = self("Cast", rows, to=TensorProto.DOUBLE)
        rows = self("Sub", rows, self.constant(middle))
        products = self("MatMul", rows, self.constant(precision * centers.T))
        return self("Sub", products, self.constant(0.5 * precision * (centers**2).sum(axis=1)))

    def shares(self, scores, nearest, model):
        if model.sigma_ == 0.0:
            one_hot = self.constant(np.eye(len(model.cluster_centers_)))
            return self("Gather", one_hot, nearest, axis=0)
        if model._alpha == 1.0:
            return self("Softmax", scores, axis=1)
        return self.entmax(scores, nearest, model._alpha, len(model.cluster_centers_))

    def entmax(self, scores, nearest, alpha, n_clusters):
        """Powers of what exceeds the threshold, found by halving an interval that contains it."""
        nearest = self("Unsqueeze", nearest, self.constant(np.array([1])))
        largest = self("GatherElements", scores, nearest, axis=1)
        gaps = self("Mul", self("Sub", scores, largest), self.constant(alpha - 1.0))
        power = self.constant(1.0 / (alpha - 1.0))

        def above(threshold):
            return self("Pow", self("Relu", self("Sub", gaps, threshold)), power)

        one = self.constant(1.0)
        lower = self("Sub", self("Mul", largest, self.constant(0.0)), one)
        width = 1.0 - n_clusters ** (1.0 - alpha)  # to where the largest share is 1 / n_clusters
        for _ in range(_HALVINGS):
            width *= 0.5
            middle = self("Add", lower, self.constant(width))
            too_low = self("GreaterOrEqual", self.sum_of_rows(above(middle)), one)
            lower = self("Where", too_low, middle, lower)
        powers = above(self("Add", lower, self.constant(width)))  # no share of what is below
        return self("Div", powers, self.sum_of_rows(powers))
