"""Temperatures by step, for annealing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class _Schedule:
    """Base of the schedules; a subclass has `_between`, its value at a share of the way."""

    start: float
    end: float
    n_steps: int

    def __post_init__(self):
        for name in ("start", "end"):
            if not 0.0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must be positive, got {getattr(self, name)!r}.")
        if self.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {self.n_steps!r}.")

    def __call__(self, step):
        share = min(step / self.n_steps, 1.0)
        return self.end if share == 1.0 else self._between(share)


@dataclass(frozen=True)
class GeometricSchedule(_Schedule):
    """Temperature that is multiplied by the same factor in every step.

    Parameters
    ----------
    start : float
        Temperature at step 0, as a length in the unit of the rows, above 0.
    end : float
        Temperature from step `n_steps` on, in the same unit, above 0.
    n_steps : int
        Number of steps from `start` to `end`, at least 1.

    Examples
    --------
    >>> from sklearn_softkmeans.nn import GeometricSchedule
    >>> schedule = GeometricSchedule(start=8.0, end=2.0, n_steps=2)
    >>> [schedule(step) for step in range(4)]
    [8.0, 4.0, 2.0, 2.0]
    """

    def _between(self, share):
        return self.start * (self.end / self.start) ** share


@dataclass(frozen=True)
class LinearSchedule(_Schedule):
    """Temperature that falls by the same length in every step.

    Parameters
    ----------
    start : float
        Temperature at step 0, as a length in the unit of the rows, above 0.
    end : float
        Temperature from step `n_steps` on, in the same unit, above 0.
    n_steps : int
        Number of steps from `start` to `end`, at least 1.

    Examples
    --------
    >>> from sklearn_softkmeans.nn import LinearSchedule
    >>> schedule = LinearSchedule(start=8.0, end=2.0, n_steps=2)
    >>> [schedule(step) for step in range(4)]
    [8.0, 5.0, 2.0, 2.0]
    """

    def _between(self, share):
        return self.start + (self.end - self.start) * share
