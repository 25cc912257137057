"""Constrained decoding: which tokens go on with an answer that a JSON Schema allows, row by row.

llguidance keeps the grammar; this says what it needs of a tokenizer, and what happens where a vocabulary
cannot go on: such a row is free from there.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import llguidance
import llguidance.hf
import numpy as np

from assay.core.errors import PolicyError
from assay.rollout.policy.engine.choice import Bits

if TYPE_CHECKING:
    from assay.rollout.policy.model import Policy

SPACED = {"whitespace_flexible": False, "item_separator": ", ?", "key_separator": ": ?"}
SAMPLE = '{"name":"a b","list":[1,-2.5,true,null]}'


class SchemaBound:
    """What one row may write, token after token.

    Args:
        matcher: Of llguidance, at its beginning.
        text: Bits of the tokens that stand for text.
        end: Bits of those that end a completion.
    """

    def __init__(self, matcher: Any, text: Bits, end: Bits) -> None:
        self._first, self._text, self._plain = matcher, text, text | end
        self._ends = frozenset(np.flatnonzero(np.unpackbits(end.view(np.uint8), bitorder="little")).tolist())
        self.dead = False  # whether the vocabulary could not go on in some completion
        self.begin()

    def begin(self) -> None:
        """Begin another completion."""
        self._matcher, self._free = self._first.deep_copy(), False

    def fill(self, bits: Bits) -> None:
        """Take from the bits of a row, one for each logit, the tokens that may not come next."""
        if self._free:
            return
        # Into a place of its own: a vocabulary may be larger than the logits, or smaller. What the logits do
        # not have cannot be chosen, and what no token stands for is none.
        allowed = np.zeros(len(self._plain), np.int32)
        self._matcher.unsafe_compute_mask_ptr(allowed.ctypes.data, allowed.nbytes)
        n = min(len(bits), len(allowed))
        bits[n:] = 0
        bits[:n] &= (allowed & self._plain)[:n]
        # Where nothing can follow, llguidance names the end, also where it would break the answer off.
        left = bits[:n] if self._matcher.is_accepting() else bits[:n] & self._text[:n]
        if not left.any():
            bits[:] = -1
            self._free = self.dead = True

    def take(self, token: int) -> None:
        """Go on behind a token that was chosen."""
        if self._free or token in self._ends:
            self._free = True
        elif not self._matcher.consume_token(token):
            self._free = self.dead = True


class Grammars:
    """JSON Schemas as bounds for the tokens of one policy.

    Args:
        policy: Whose tokenizer it is.

    Raises:
        PolicyError: llguidance cannot read the tokenizer.
    """

    def __init__(self, policy: Policy) -> None:
        self._known, self._rule = _known(policy)
        size = -(-self._known.vocab_size // 32) * 32
        special = [number for number, token in policy.tokenizer.added_tokens_decoder.items() if token.special]
        self._end = _bits(policy.dialogue.end_ids, size)
        self._text = ~(_bits(special, size) | self._end)
        self._compiled = lru_cache(4096)(self._compile)

    def bound(self, schema: str) -> SchemaBound | None:
        """Return the bound of a JSON Schema; None where it cannot be compiled."""
        matcher = self._compiled(schema)
        return None if matcher is None else SchemaBound(matcher, self._text, self._end)

    def _compile(self, schema: str) -> Any:
        # What llguidance does not know of a schema is left to the model, rather than all of it. Of white
        # space no more than one between parts: where any was allowed, small models wrote it to the limit.
        for lenient in (False, True):
            try:
                root = json.loads(schema)
                # With a place of its own, what it refers to in itself is looked for there
                home = {"$id": "file:///schema.json"} | root if isinstance(root, dict) else root
                bounded = {"x-guidance": SPACED | {"lenient": lenient}, "allOf": [home]}
                grammar = f"{self._rule}start: %json {json.dumps(bounded)}"
                matcher = llguidance.LLMatcher(
                    self._known, llguidance.LLMatcher.grammar_from_lark(grammar), log_level=0
                )
            except (ValueError, TypeError, RuntimeError):
                continue
            if not matcher.get_error():
                return matcher
        return None


def _bits(numbers: Sequence[int], size: int) -> Bits:
    found = np.zeros(size, bool)
    found[[number for number in numbers if number < size]] = True
    return np.packbits(found, bitorder="little").view(np.int32)


def _known(policy: Policy) -> tuple[Any, str]:
    """Return the tokenizer as llguidance knows it, and a rule for its grammars.

    It reads most by itself; one whose tokens are joined without a gap is told it token by token. Its words
    cannot spell every text, so that there is no one way to spell what a grammar leaves no choice of: none is
    forced.
    """
    tokenizer, eos = policy.tokenizer, policy.dialogue.eos_id
    try:
        return llguidance.hf.from_tokenizer(tokenizer, eos_token=eos), ""  # type: ignore[arg-type]
    except (ValueError, RuntimeError) as error:
        said = str(error).split("\n")[0]

    def parts(ids: Sequence[int]) -> list[str]:
        return [policy.dialogue.text([number, eos]) for number in ids]

    sample = [int(number) for number in tokenizer(SAMPLE, add_special_tokens=False)["input_ids"]]
    if "".join(parts(sample)) != policy.dialogue.text([*sample, eos]):
        raise PolicyError(
            "a tokenizer that llguidance can read",
            found=said[:120],
            where=str(getattr(tokenizer, "name_or_path", "") or "the tokenizer"),
            fix="set evaluation.rivals.constrained: false",
        )
    known = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Spelt(tokenizer, eos, parts)))
    return known, '%llguidance {"no_forcing": true}\n'


class _Spelt:
    """A tokenizer as `llguidance.TokenizerWrapper` wants it."""

    def __init__(self, tokenizer: Any, eos: int, parts: Any) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id, self.bos_token_id = eos, None
        self.special_token_ids = [int(number) for number in tokenizer.all_special_ids]
        self.tokens = [part.encode() for part in parts(range(len(tokenizer)))]

    def __call__(self, text: str | bytes) -> list[int]:
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        return [int(number) for number in self._tokenizer(text, add_special_tokens=False)["input_ids"]]
