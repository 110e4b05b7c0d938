"""Types in public signatures: for checkers and editors, without effect at run time."""

from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias

from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray


class SparseLike(Protocol):
    """Sparse matrices and arrays of SciPy, which has no types of its own."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def tocsr(self) -> Any: ...


Array: TypeAlias = NDArray[Any]
MatrixLike: TypeAlias = ArrayLike | SparseLike

# Parameters that estimators and functions share.
Init: TypeAlias = str | ArrayLike | Callable[..., ArrayLike]
Seed: TypeAlias = int | RandomState | None
Solver: TypeAlias = Literal["auto", "em", "anderson", "lbfgs"]
