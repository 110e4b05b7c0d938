"""Where rows are hard and where centers merge, and pictures of both."""

from ._certificates import critical_sigma, hard_sigma
from ._collapse import CollapsePathDisplay
from ._membership import MembershipDisplay
from ._tree import AnnealingDisplay

__all__ = [
    "AnnealingDisplay",
    "CollapsePathDisplay",
    "MembershipDisplay",
    "critical_sigma",
    "hard_sigma",
]
