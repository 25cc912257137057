"""What drafts gain and cost (`generation.drafts`), on text that copies its prompt and on text that copies
nothing; one CPU thread.

    ./run bench drafts
    ./run python benchmarks/drafts.py --pairs 1 --out FILE    (a quick look)

A model of 7 M parameters writes 128 tokens by `lean`, with four guesses a token and with none, in turn;
behind prompts of 512 tokens, each row its own. `copies`: each token is followed by the next word almost
surely, and the prompt has all words in order, so that nearly every guess is right: no task gains more.
`random`: random weights at temperature 1, where guesses are hardly ever right. Both sides write the same
tokens, which is checked. Processor seconds of writing alone, medians of pairs; a ratio above 1 is a gain.
Writes results/drafts.json.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import torch
from benchmarks import filler
from benchmarks.common import RESULTS, machine, options, spread, turns, written
from benchmarks.floors import SHAPES

from assay.core.decoding import Decoding
from assay.rollout.policy.engine.engine import Session
from assay.rollout.policy.memory import keep_freed_memory
from assay.rollout.policy.model import playing

DRAFTS, PROMPT, NEW = 4, 512, 128
KINDS, ROWS = ("copies", "random"), (1, 4, 16, 64)
FIRST = 8  # of the words; below are tokens that mean something


def copying(model: Any) -> None:
    """Make a model follow each word by the next one, of all PROMPT words over and over."""
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    words = model.model.embed_tokens.weight.clone()
    words /= words.norm(dim=1, keepdim=True).clamp(min=1e-6)
    model.model.embed_tokens.weight.copy_(words)
    head = torch.zeros_like(words)
    head[FIRST + (torch.arange(PROMPT) + 1) % PROMPT] = 2.0 * words[FIRST : FIRST + PROMPT]
    model.lm_head.weight = torch.nn.Parameter(head)


Side = Callable[[int], tuple[float, Any]]  # of drafts: processor seconds, and what was written


def writing(kind: str, rows: int) -> Side:
    """Return how a model of one kind writes behind prompts, each row's its own."""
    policy = filler.policy_of(SHAPES["7 M"], "cpu", torch.float32)
    if kind == "copies":
        with torch.no_grad():
            copying(policy.model)
    words = torch.arange(PROMPT) + FIRST
    openings = [words.roll(7 * row).tolist() for row in range(rows)]

    def side(drafts: int) -> tuple[float, Any]:
        decoding, ends = Decoding(1.0, NEW, "lean", drafts=drafts), {"end_ids": [10**6]}
        with playing(policy.model):
            session = Session(policy.model, openings, range(rows), decoding, **ends, pad_id=policy.pad_id)
            begun = time.process_time()
            done = session.complete()
            return time.process_time() - begun, [one.ids for one in done]

    return side


def compared(kind: str, rows: int, pairs: int) -> dict[str, Any]:
    """Return the seconds of both sides in turn and their ratio."""
    side = writing(kind, rows)
    seconds: dict[str, list[float]] = {"none": [], "drafts": []}
    said = []
    for pair, name in turns(pairs + 1, "none", "drafts"):
        took, ids = side(DRAFTS if name == "drafts" else 0)
        said.append(ids)
        if pair:  # the first one is for warming up
            seconds[name].append(took)
    if any(each != said[0] for each in said):
        raise SystemExit(f"{kind}, {rows} rows: the tokens differ")
    ratios = [one / other for one, other in zip(seconds["none"], seconds["drafts"], strict=True)]
    return {"n": pairs, "seconds": seconds, "gain": spread(ratios)}


def main() -> None:
    """Measure every case and write the result."""
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "drafts.json")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    record: dict[str, Any] = {"machine": machine(), "drafts": DRAFTS, "cases": {}}
    for kind in KINDS:
        for rows in ROWS:
            found = record["cases"][f"{kind}, {rows}"] = compared(kind, rows, chosen.pairs)
            print(f"{kind}, {rows} rows: {found['gain']}", file=sys.stderr, flush=True)
    written(chosen.out, record)


if __name__ == "__main__":
    main()
