"""Where rows are hard and where centers merge, and pictures of both."""

from ._certificates import critical_sigma, hard_sigma

__all__ = ["critical_sigma", "hard_sigma"]
