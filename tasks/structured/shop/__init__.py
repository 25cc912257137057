"""The shipped structured task: jobs about orders in a shop, and what teaches a from-scratch base to answer
them."""

from .lessons import demonstrations, drills, vocabulary
from .orders import files, fresh_heldout

__all__ = ["demonstrations", "drills", "files", "fresh_heldout", "vocabulary"]
