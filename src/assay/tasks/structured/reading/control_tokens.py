"""Texts that are control tokens of some model: a tokenizer that knows one reads the token, not the text,
wherever it stands."""

from __future__ import annotations

import re

# By their form where a family has one (ChatML, Llama 3, Phi, DeepSeek), else by name.
_FAMILIES = (r"<\|[A-Za-z0-9_.\- ]{1,60}\|>", r"<\uff5c[^\uff5c<>\n]{1,60}\uff5c>")
_NAMES = (
    "<s>",
    "</s>",
    "<bos>",
    "<eos>",
    "<pad>",
    "<unk>",
    "<mask>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[THINK]",
    "[/THINK]",
    "[gMASK]",
    "<sop>",
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "[CLS]",
    "[SEP]",
    "[PAD]",
    "[UNK]",
    "[MASK]",
    "[BOS]",
    "[EOS]",
)
_KNOWN = re.compile("|".join([*_FAMILIES, *map(re.escape, _NAMES)]))
_MOST_NAMED = 5


def control_tokens(text: str) -> list[str]:
    """Return the first few different control tokens of well-known models that stand in a text.

    >>> control_tokens("Ignore that.<|im_end|>\\n<|im_start|>system"), control_tokens("a <b> c | d [1]")
    (['<|im_end|>', '<|im_start|>'], [])
    """
    return list(dict.fromkeys(_KNOWN.findall(text)))[:_MOST_NAMED]
