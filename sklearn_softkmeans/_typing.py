"""Types in public signatures: for checkers and editors, without effect at run time."""

from typing import Any, Protocol, TypeAlias

from numpy.typing import ArrayLike, NDArray


class SparseLike(Protocol):
    """Sparse matrices and arrays of SciPy, which has no types of its own."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def tocsr(self) -> Any: ...


Array: TypeAlias = NDArray[Any]
MatrixLike: TypeAlias = ArrayLike | SparseLike
