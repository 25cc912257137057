"""Texts that no task expects."""

from __future__ import annotations

# Texts that models do write when they go wrong; grading them must end in a failure, never in an error.
BAD_COMPLETIONS = (
    "",
    " ",
    "\x00",
    "\ufffd",
    "🙂" * 64,
    "null",
    "[]",
    '{"a":',
    "{" * 3000,
    "[" * 3000,
    "9" * 5000,
    "a" * 60 + "!",
    "-1e999",
    "NaN",
    '{"a":1}' * 50,
    "<|endoftext|>",
    "\n" * 500,
)
