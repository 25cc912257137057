"""Output files of the batch interfaces of model servers: a request's own id, and the answer deep inside.

* OpenAI, vLLM, Mistral: custom_id, response.body as /v1/chat/completions, /v1/completions or /v1/responses
  answers (https://platform.openai.com/docs/guides/batch).
* Anthropic: custom_id, result.message (https://docs.anthropic.com/en/docs/build-with-claude/batch-processing).
* Gemini: key, response.candidates (https://ai.google.dev/gemini-api/docs/batch-api).

And what people write down of an engine or a local server: vLLM's RequestOutput (prompt, outputs of text,
token_ids and finish_reason), and answers of Ollama (message or response, done, done_reason, eval_count).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.core.errors import DataError
from assay.rollout.tables.columns import NAMES, is_cut_off, look_up

IDS = ("custom_id", "key")
_MESSAGES = ("response.body.choices.0.message", "result.message", "response.candidates.0.content")
_CHOICES = ("response.body.choices", "response.candidates")
_OUTPUT = "response.body.output"
_TEXT = "response.body.choices.0.text"
_ENDED = (
    *("response.body.choices.0.finish_reason", "result.message.stop_reason"),
    "response.body.incomplete_details.reason",
    "response.candidates.0.finishReason",
)
_TOKENS = (
    *("response.body.usage.completion_tokens", "result.message.usage.output_tokens"),
    "response.body.usage.output_tokens",
    "response.usageMetadata.candidatesTokenCount",
)
_COMPLETIONS = frozenset({*NAMES["completion"], "completions", "messages", "turns"})
_MODELS = ("response.body.model", "result.message.model", "response.modelVersion")
_ERRORS = (
    *("error.message", "error.code", "error", "response.body.error.message", "result.error.error.message"),
    *("result.type", "response.status_code"),
)


@dataclass(frozen=True, slots=True)
class BatchAnswer:
    """One line of such a file, which may have several answers. `message` None: the request failed, `why` says
    how."""

    item: str
    message: Mapping[str, Any] | None
    tokens: Any
    truncated: bool | None
    model: str | None
    why: str = ""
    answers: int = 1


def answer_of(row: Mapping[str, Any]) -> BatchAnswer | None:
    """Return what a line of a batch's output says; None for any other row."""
    name = next((each for each in IDS if each in row), None)
    if name is None or not ({"response", "result"} & row.keys()):
        return None
    if not all(isinstance(row.get(each), Mapping | None) for each in ("response", "result")):
        return None
    found = _first(row, _MESSAGES)
    text = look_up(row, _TEXT)
    message = found if isinstance(found, Mapping) else None if text is None else {"content": text}
    if message is not None and "content" not in message and isinstance(message.get("parts"), list):
        message = {"content": message["parts"]}
    if message is None and isinstance(output := look_up(row, _OUTPUT), list) and output:
        message = _message_of(output)
    choices = _first(row, _CHOICES)
    ended, model = _first(row, _ENDED), _first(row, _MODELS)
    return BatchAnswer(
        str(row[name]),
        message,
        _first(row, _TOKENS),
        None if ended is None else bool(is_cut_off(ended)),
        model if isinstance(model, str) else None,
        "" if message is not None else str(_first(row, _ERRORS))[:80],
        len(choices) if isinstance(choices, list) else 1,
    )


def spread_answers(where: str, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row for each answer that a row of vLLM's outputs or of Ollama holds; any other row as it is.

    Raises:
        DataError: It is a piece of an answer that was streamed.
    """
    outputs = row.get("outputs") if _COMPLETIONS.isdisjoint(row) else None
    if isinstance(outputs, list) and outputs and all(_is_output(each) for each in outputs):
        rest = {name: value for name, value in row.items() if name != "outputs"}
        for k, each in enumerate(outputs):
            told = each if isinstance(each, Mapping) else {"text": each}
            found = {**rest, "completion": told["text"]}
            if isinstance(told.get("token_ids"), list):
                found["tokens"] = len(told["token_ids"])
            if told.get("finish_reason") is not None:
                found["finish_reason"] = told["finish_reason"]
            yield found | ({"draw": told.get("index", k)} if len(outputs) > 1 else {})
    elif isinstance(row.get("done"), bool) and ("message" in row or "response" in row):
        if not row["done"]:
            fix = "ask with stream: false, or put the pieces of each answer together"
            raise DataError("whole answers", found="a piece of one (done: false)", where=where, fix=fix)
        own = ("message", "response", "done", "done_reason", "eval_count")
        found = {name: value for name, value in row.items() if name not in own}
        found["completion"] = row["message"] if "message" in row else row["response"]
        yield found | {"tokens": row.get("eval_count"), "finish_reason": row.get("done_reason")}
    else:
        yield row


def _is_output(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and isinstance(value.get("text"), str))


def _message_of(output: list[Any]) -> Mapping[str, Any]:
    """Return what the items of /v1/responses say as one message: texts, and calls of functions."""
    items = [each for each in output if isinstance(each, Mapping)]
    said = [each["content"] for each in items if isinstance(each.get("content"), list | str)]
    parts = [part for each in said for part in (each if isinstance(each, list) else [{"text": each}])]
    calls = [
        {"function": {"name": each.get("name"), "arguments": each.get("arguments")}}
        for each in items
        if each.get("type") == "function_call"
    ]
    texts = [part for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
    refused = "".join(
        str(part["refusal"]) for part in parts if isinstance(part, Mapping) and "refusal" in part
    )
    content: Any = "".join(part["text"] for part in texts) if texts else refused or None
    return {"content": content, "tool_calls": calls} if calls else {"content": content or ""}


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((value for name in names if (value := look_up(row, name)) is not None), None)
