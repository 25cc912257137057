"""The shipped structured task: jobs about orders in a shop, and what teaches a from-scratch base to answer
them."""

from .lessons import demonstrations, drills, vocabulary
from .orders import SOURCE, files, generate_more

__all__ = ["SOURCE", "demonstrations", "drills", "files", "generate_more", "vocabulary"]
