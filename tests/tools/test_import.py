"""`assay task import`: data in the forms that people have, named by `task audit`, become records that it
reads; every command that is printed on the way leads on."""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import math
import re
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from assay.checks.own_data.forms import NotConverted, convert, name_form
from assay.checks.own_data.tables import name_container, read_rows
from assay.core.errors import DataError
from assay.rollout.tables.columns import Columns
from tests import calling, own_data
from tests.house import ROOT
from tests.own_data import jsonl

N = 12
ORDER = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "n": {"type": "integer"}, "to": {"type": ["string", "null"]}},
    "required": ["item", "to"],
    "additionalProperties": False,
}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "book", "strict": True, "parameters": {**ORDER, "required": ["item"]}},
    },
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}},
]
BARE = [tool["function"] for tool in TOOLS]


def asked(k: int) -> str:
    return f"Send {k + 2} lamps of kind {k} to nobody yet."


def right(k: int) -> dict[str, Any]:
    return {"item": f"kind {k}", "n": k + 2, "to": None}


def call(k: int) -> dict[str, Any]:
    return {"book": {name: [value] for name, value in right(k).items()}}


def called_as(k: int, *, text: bool = True) -> dict[str, Any]:
    return {"name": "book", "arguments": json.dumps(right(k)) if text else right(k)}


def talk(k: int, answer: Any, *, system: bool = True) -> list[dict[str, Any]]:
    first = [{"role": "system", "content": "Be brief."}] if system else []
    return [*first, {"role": "user", "content": asked(k)}, *([] if answer is None else [answer])]


def said(k: int) -> dict[str, Any]:
    return {"role": "assistant", "content": json.dumps(right(k))}


def sharegpt(k: int, **more: Any) -> dict[str, Any]:
    turns = [{"from": "human", "value": asked(k)}, {"from": "gpt", "value": json.dumps(right(k))}]
    return {"conversations": turns, "schema": ORDER, **more}


def with_calls(k: int, content: Any = None, *, text: bool = True) -> dict[str, Any]:
    calls = [{"id": "c", "type": "function", "function": called_as(k, text=text)}]
    return {"role": "assistant", "content": content, "tool_calls": calls}


Made = Callable[[int], Mapping[str, Any]]
# By what a file is: a row of it, and whether what is right is a gold value, a gold call, or an answer.
FORMS: dict[str, tuple[str, Made, str]] = {
    "ShareGPT": ("ShareGPT", sharegpt, "value"),
    "ShareGPT with a system column": ("ShareGPT", lambda k: sharegpt(k, system="Be brief."), "value"),
    "ShareGPT as JSON text": (
        "ShareGPT",
        lambda k: {**sharegpt(k), "conversations": json.dumps(sharegpt(k)["conversations"])},
        "value",
    ),
    "ShareGPT with tools": (
        "ShareGPT",
        lambda k: {
            "conversations": [
                {"from": "human", "value": asked(k)},
                {"from": "function_call", "value": json.dumps(called_as(k, text=False))},
                {"from": "observation", "value": "done"},
                {"from": "gpt", "value": "It is booked."},
            ],
            "tools": json.dumps(BARE),
        },
        "call",
    ),
    "Hermes tags": (
        "ShareGPT",
        lambda k: {
            "conversations": [
                {"from": "human", "value": asked(k)},
                {
                    "from": "gpt",
                    "value": f"<tool_call>\n{json.dumps(called_as(k, text=False))}\n</tool_call>",
                },
            ],
            "tools": json.dumps(TOOLS),
        },
        "call",
    ),
    "Alpaca": (
        "Alpaca",
        lambda k: {
            "instruction": "Write it down.",
            "input": asked(k),
            "output": json.dumps(right(k)),
            "schema": ORDER,
        },
        "value",
    ),
    "Alpaca without schema": (
        "Alpaca",
        lambda k: {"instruction": asked(k), "input": "", "output": f"kind {k}"},
        "answer",
    ),
    "Dolly": (
        "Alpaca",
        lambda k: {"instruction": "Which?", "context": asked(k), "response": f"kind {k}"},
        "answer",
    ),
    "messages with the answer": (
        "chat messages",
        lambda k: {"messages": talk(k, said(k)), "schema": ORDER},
        "value",
    ),
    "messages in parts": (
        "chat messages",
        lambda k: {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": asked(k)}]},
                {"role": "assistant", "content": [{"type": "text", "text": json.dumps(right(k))}]},
            ],
            "schema": ORDER,
        },
        "value",
    ),
    "tools as a list": (
        "chat messages",
        lambda k: {"messages": talk(k, with_calls(k)), "tools": TOOLS},
        "call",
    ),
    "tools as JSON text": (
        "chat messages",
        lambda k: {"messages": talk(k, with_calls(k)), "tools": json.dumps(TOOLS)},
        "call",
    ),
    "bare tools": (
        "chat messages",
        lambda k: {"messages": talk(k, with_calls(k, "")), "tools": BARE},
        "call",
    ),
    "arguments as objects": (
        "chat messages",
        lambda k: {"messages": talk(k, with_calls(k, text=False)), "tools": TOOLS},
        "call",
    ),
    "the old function_call": (
        "chat messages",
        lambda k: {
            "messages": talk(k, {"role": "assistant", "content": None, "function_call": called_as(k)}),
            "tools": BARE,
        },
        "call",
    ),
    "a conversation that goes on": (
        "chat messages",
        lambda k: {
            "messages": [
                *talk(k, with_calls(k)),
                {"role": "tool", "tool_call_id": "c", "content": "done"},
                {"role": "assistant", "content": "It is booked."},
            ],
            "tools": TOOLS,
        },
        "call",
    ),
    "prompt and completion": (
        "prompt and completion",
        lambda k: {"prompt": talk(k, None), "completion": [said(k)], "schema": json.dumps(ORDER)},
        "value",
    ),
    "verl": (
        "verl",
        lambda k: {
            "data_source": "own",
            "prompt": talk(k, None, system=False),
            "reward_model": {"style": "rule", "ground_truth": f"kind {k}"},
            "extra_info": {"split": "train", "index": k},
        },
        "answer",
    ),
    "verl with a text": (
        "verl",
        lambda k: {"prompt": asked(k), "reward_model": {"style": "rule", "ground_truth": f"kind {k}"}},
        "answer",
    ),
    "messages scored by a reward model": (
        "chat messages",
        lambda k: {"messages": talk(k, said(k)), "schema": ORDER, "reward_model": "large"},
        "value",
    ),
    "Alpaca with a history as JSON text": (
        "Alpaca",
        lambda k: {"instruction": asked(k), "output": f"kind {k}", "history": "[]"},
        "answer",
    ),
    "question and answer": (
        "question and answer",
        lambda k: {"question": asked(k), "answer": f"kind {k}"},
        "answer",
    ),
    "a filled schema": (
        "a schema in which absent keywords are null",
        lambda k: {"prompt": asked(k), "schema": {**ORDER, "enum": None, "$ref": None}, "gold": right(k)},
        "value",
    ),
}


def told_by(k: int) -> list[tuple[str, str]]:
    return [("system", "Be brief."), ("user", asked(k)), ("assistant", f"kind {k}")]


def glaive(k: int) -> dict[str, Any]:
    written = json.dumps(right(k)).replace("'", "\\'")
    return {
        "system": "SYSTEM: You are a helpful assistant with access to the following functions. -\n"
        + "\n".join(json.dumps(function, indent=4) for function in BARE),
        "chat": f"USER: {asked(k)}\n\n\nASSISTANT: <functioncall> "
        f'{{"name": "book", "arguments": \'{written}\'}}'
        ' <|endoftext|>\n\n\nFUNCTION RESPONSE: {"done": true}\n\n\nASSISTANT: It is booked. <|endoftext|>',
    }


def gemini(k: int, *parts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": asked(k)}]},
            {"role": "model", "parts": list(parts) or [{"text": f"kind {k}"}]},
        ],
    }


def in_capitals(schema: Any) -> Any:
    return json.loads(
        re.sub(r'"type": "(\w+)"', lambda found: f'"type": "{found[1].upper()}"', json.dumps(schema))
    )


FORMS |= {
    "chatml": (
        "a conversation as one text (text, with the marks of chatml)",
        lambda k: {"text": "\n".join(f"<|im_start|>{role}\n{said}<|im_end|>" for role, said in told_by(k))},
        "answer",
    ),
    "chatml as messages": (
        "a conversation as one text",
        lambda k: {
            "messages": "".join(f"<|im_start|>{role}\n{said}<|im_end|>\n" for role, said in told_by(k))
        },
        "answer",
    ),
    "chatml as prompt": (
        "a conversation as one text",
        lambda k: {
            "prompt": f"<|im_start|>user\n{asked(k)}<|im_end|>\n<|im_start|>assistant\n",
            "response": f"kind {k}",
        },
        "answer",
    ),
    "Llama 3 as text": (
        "a conversation as one text",
        lambda k: {
            "text": "<|begin_of_text|>"
            + "".join(
                f"<|start_header_id|>{role}<|end_header_id|>\n\n{said}<|eot_id|>" for role, said in told_by(k)
            )
        },
        "answer",
    ),
    "Llama 2 as text": (
        "a conversation as one text",
        lambda k: {"text": f"<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\n{asked(k)} [/INST] kind {k} </s>"},
        "answer",
    ),
    "Gemma as text": (
        "a conversation as one text",
        lambda k: {
            "text": f"<bos><start_of_turn>user\n{asked(k)}<end_of_turn>\n"
            f"<start_of_turn>model\nkind {k}<end_of_turn>"
        },
        "answer",
    ),
    "headings": (
        "a conversation as one text",
        lambda k: {"text": f"### Human: {asked(k)}\n### Assistant: kind {k}"},
        "answer",
    ),
    "Gemini": ("Gemini", gemini, "answer"),
    "Gemini with tools": (
        "Gemini",
        lambda k: {
            **gemini(
                k, {"functionCall": {"name": "book", "args": {"item": f"kind {k}", "n": k + 2, "to": None}}}
            ),
            "tools": [{"functionDeclarations": in_capitals(BARE)}],
        },
        "call",
    ),
    "glaive": ("glaive", glaive, "call"),
    "BFCL": (
        "BFCL",
        lambda k: {
            "id": f"simple_{k}",
            "question": [[{"role": "user", "content": asked(k)}]],
            "function": BARE,
            "ground_truth": [call(k)],
        },
        "call",
    ),
    "tools that are none": (
        "chat messages",
        lambda k: {
            "messages": talk(k, {"role": "assistant", "content": f"kind {k}", "tool_calls": []}),
            "tools": [],
        },
        "answer",
    ),
}


def test_answers_that_a_task_would_pass_over_are_told(root: Path) -> None:
    rows = [{"prompt": asked(k), "completion": json.dumps(right(k)), "schema": ORDER} for k in range(N)]
    (root / "theirs.jsonl").write_bytes(jsonl(rows))
    done = calling.called(root, "task", "audit", "theirs.jsonl")
    assert "no record has a gold, but it is prompt and completion (TRL)" in done.stdout
    for command in (fixes(done.stdout)[0], ["task", "audit", "theirs_records.jsonl"]):
        assert calling.called(root, *command).returncode == 0
    holds(records_of(root), "value")


@pytest.fixture(autouse=True)
def no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which presets fit is another matter, and costs reading all of them."""
    monkeypatch.setattr("assay.checks.own_data.audit.find_fitting", lambda *_, **__: ([], []))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    own_data.copy_project(tmp_path)
    for name in ("tasks/words", "data/words"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def fixes(told: str) -> list[list[str]]:
    """Return the commands of assay that a message names, in words."""
    lines = told.replace("; ./run", "\n./run").split("\n")
    found = [line[line.index("./run assay") :].partition("   ")[0] for line in lines if "./run assay" in line]
    return [shlex.split(command)[2:] for command in found]


def follow(root: Path, *words: str) -> calling.Done:
    """Do what is printed until records are read; return the last call."""
    done = calling.called(root, *words)
    for _ in range(4):
        if done.returncode == 0 and words[1] == "audit":
            return done
        commands = [command for command in fixes(done.stdout + done.stderr) if "SCHEMA.json" not in command]
        assert commands, done.stdout + done.stderr
        for command in commands:
            done, words = calling.called(root, *command), tuple(command)
            if words[1] != "audit":
                assert done.returncode == 0, done.stderr
    return done


def records_of(root: Path) -> list[dict[str, Any]]:
    (path,) = root.glob("*_records.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def holds(records: Sequence[Mapping[str, Any]], kind: str) -> None:
    """Ask for records that say what the rows said, each as it was."""
    assert len(records) == N
    for k, record in enumerate(records):
        prompt = record["prompt"] if isinstance(record["prompt"], str) else record["prompt"][-1]["content"]
        assert asked(k) in prompt
        if kind == "answer":
            assert record["answer"] == f"kind {k}" and "gold" not in record
        else:
            assert record["gold"] == (right(k) if kind == "value" else call(k))


def parquet_of(rows: Sequence[Mapping[str, Any]]) -> bytes:
    sink = io.BytesIO()
    parquet.write_table(arrow.Table.from_pylist(list(rows)), sink)
    return sink.getvalue()


def csv_of(rows: Sequence[Mapping[str, Any]], separator: str) -> bytes:
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter=separator)
    writer.writerow(rows[0])
    writer.writerows(
        [value if isinstance(value, str) else json.dumps(value) for value in row.values()] for row in rows
    )
    return sink.getvalue().encode()


CONTAINERS: dict[str, tuple[str, str, Callable[[Sequence[Mapping[str, Any]]], bytes]]] = {
    "array": ("a JSON array", ".json", lambda rows: json.dumps(list(rows)).encode()),
    "pretty array": ("a JSON array", ".json", lambda rows: json.dumps(list(rows), indent=2).encode()),
    "data key": (
        "one JSON object",
        ".json",
        lambda rows: json.dumps({"version": 1, "data": list(rows)}, indent=1).encode(),
    ),
    "data key in a line": (
        "one JSON object",
        ".jsonl",
        lambda rows: json.dumps({"data": list(rows)}).encode() + b"\n",
    ),
    "rows of a server": (
        "one JSON object",
        ".json",
        lambda rows: json.dumps({"rows": [{"row_idx": 0, "row": row} for row in rows]}, indent=1).encode(),
    ),
    "columns": (
        "one JSON object",
        ".json",
        lambda rows: json.dumps({name: [row[name] for row in rows] for name in rows[0]}, indent=1).encode(),
    ),
    "CSV": ("CSV", ".csv", lambda rows: csv_of(rows, ",")),
    "CSV with semicolons": ("CSV", ".csv", lambda rows: b"\xef\xbb\xbf" + csv_of(rows, ";")),
    "TSV": ("CSV", ".tsv", lambda rows: csv_of(rows, "\t")),
    "gzip": ("gzip", ".jsonl.gz", lambda rows: gzip.compress(jsonl(rows))),
    "CSV in gzip": ("gzip", ".csv.gz", lambda rows: gzip.compress(csv_of(rows, ","))),
    "splits by column": (
        "one JSON object",
        ".json",
        lambda rows: json.dumps(
            {"train": {name: [row[name] for row in rows] for name in rows[0]}}, indent=1
        ).encode(),
    ),
    "Parquet": ("Parquet", ".parquet", parquet_of),
    "Parquet named otherwise": ("Parquet", ".jsonl", parquet_of),
}


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_known_and_says_what_it_said(name: str) -> None:
    form, made, kind = FORMS[name]
    assert (name_form(made(0)) or "").startswith(form)
    holds([convert(made(k), Columns()) for k in range(N)], kind)
    assert name_form(convert(made(0), Columns())) is None  # and needs no importing again


@pytest.mark.parametrize("name", CONTAINERS)
def test_each_kind_of_file_is_known_and_its_rows_are_read(tmp_path: Path, name: str) -> None:
    found, suffix, written = CONTAINERS[name]
    rows = [{"question": asked(k), "answer": f"kind {k}"} for k in range(N)]
    path = tmp_path / f"theirs{suffix}"
    path.write_bytes(written(rows))
    assert read_rows(path) == rows
    # An object in one line could be a record: its form says what it is.
    assert found in (name_container(path) or name_form(json.loads(path.read_bytes())) or "")


@pytest.mark.long
@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_named_first_and_every_command_that_is_printed_leads_on(root: Path, name: str) -> None:
    form, made, kind = FORMS[name]
    (root / "theirs.jsonl").write_bytes(jsonl([made(k) for k in range(N)]))
    first = calling.called(root, "task", "audit", "theirs.jsonl")
    assert first.returncode == 1 and not first.stdout and f"found {form}" in first.stderr, first.stderr
    assert "drop" not in first.stderr
    done = follow(root, "task", "audit", "theirs.jsonl")
    assert done.returncode == 0 and f"{N} usable" in done.stdout, done.stdout + done.stderr
    holds(records_of(root), kind)


@pytest.mark.long
@pytest.mark.parametrize("name", CONTAINERS)
def test_each_kind_of_file_is_named_and_its_rows_are_read(root: Path, name: str) -> None:
    found, suffix, written = CONTAINERS[name]
    (root / f"theirs{suffix}").write_bytes(
        written([{"question": asked(k), "answer": f"kind {k}"} for k in range(N)])
    )
    first = calling.called(root, "task", "audit", f"theirs{suffix}")
    assert first.returncode == 1 and found in first.stderr and "drop" not in first.stderr, first.stderr
    assert follow(root, "task", "audit", f"theirs{suffix}").returncode == 0
    holds(records_of(root), "answer")


@pytest.mark.parametrize("name", ["verl", "tools as a list", "messages with the answer", "a filled schema"])
def test_what_parquet_fills_with_null_is_left_out_and_a_null_that_says_something_stays(
    root: Path, name: str
) -> None:
    _, made, kind = FORMS[name]
    rows = [copy.deepcopy(dict(made(k))) for k in range(N)]
    rows[0]["only_here"] = {"a": 1}  # so that all others have it as null
    (root / "theirs.parquet").write_bytes(parquet_of(rows))
    assert follow(root, "task", "audit", "theirs.parquet").returncode == 0
    records = records_of(root)
    holds(records, kind)
    assert [record.get("only_here") for record in records] == [{"a": 1}, *[None] * (N - 1)]


def test_golds_that_were_filled_with_null_are_told_as_such_and_the_command_mends_them(root: Path) -> None:
    rows = [{"prompt": asked(k), "schema": ORDER, "gold": {**right(k), "n": None}} for k in range(N)]
    (root / "theirs.jsonl").write_bytes(jsonl(rows))
    done = calling.called(root, "task", "audit", "theirs.jsonl")
    assert (
        done.returncode == 1 and "as Arrow fills them: ./run assay task import leaves them out" in done.stdout
    )
    done = calling.called(root, "task", "import", "theirs.jsonl", "--to", "mended.jsonl")
    assert calling.called(root, *fixes(done.stdout)[0]).returncode == 0
    first = json.loads((root / "mended.jsonl").read_text().split("\n")[0])
    assert first["gold"] == {"item": "kind 0", "to": None}


NULLABLE = {
    "null in enum only": (
        {"type": "string", "enum": ["a", None]},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    "null in type only": (
        {"type": ["string", "null"], "enum": ["a"]},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    "OpenAPI": ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    "OpenAPI enum": (
        {"type": "string", "enum": ["a"], "nullable": True},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    "alternatives": (
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
    ),
}


@pytest.mark.parametrize("name", NULLABLE)
def test_a_schema_that_only_seems_to_allow_null_is_told_with_what_to_write(root: Path, name: str) -> None:
    refusing, allowing = NULLABLE[name]

    def audited(part: Mapping[str, Any]) -> calling.Done:
        schema = {"type": "object", "properties": {"kind": part}, "required": ["kind"]}
        rows = [{"prompt": f"Paper {k}", "schema": schema, "gold": {"kind": None}} for k in range(3)]
        (root / "theirs.jsonl").write_bytes(jsonl(rows))
        return calling.called(root, "task", "audit", "theirs.jsonl")

    done = audited(refusing)
    assert done.returncode == 1 and "The schema allows no null there; to allow it, write" in done.stdout
    assert ("nullable" in done.stdout) == ("nullable" in refusing)
    assert ('"type": ["string","null"]' in done.stdout) == (refusing.get("type") == "string")
    assert ("null in its enum" in done.stdout) == ("enum" in refusing and None not in refusing["enum"])
    assert audited(allowing).returncode == 0


def test_one_sentence_is_said_once_however_many_records_it_is_about(root: Path) -> None:
    rows = [{"id": f"r{k}", "prompt": "", "schema": ORDER} for k in range(40)]
    (root / "theirs.jsonl").write_bytes(jsonl(rows))
    done = calling.called(root, "task", "audit", "theirs.jsonl")
    told = done.stdout + done.stderr
    assert done.returncode == 1 and told.count("a text that is not empty") == 1
    assert "drop" not in told and "edit the data: most records are so" in told


def test_schema_paths_from_the_top_of_another_project_are_found_by_the_option_that_is_named(
    root: Path,
) -> None:
    theirs = root.parent / f"{root.name}_theirs"
    for folder in ("tasks", "tasks/schemas"):
        (theirs / folder).mkdir(parents=True)
    (theirs / "tasks/schemas/order.json").write_text(json.dumps(ORDER))
    path = theirs / "tasks/orders.jsonl"
    path.write_bytes(
        jsonl(
            [
                {"prompt": asked(k), "schema_path": "tasks/schemas/order.json", "gold": right(k)}
                for k in range(N)
            ]
        )
    )
    done = calling.called(root, "task", "audit", str(path))
    assert done.returncode == 1 and "drop" not in done.stderr
    option = done.stdout.partition("Fix: ")[2].split("\n")[0].split()
    assert option == ["--root", str(theirs)]
    assert calling.called(root, "task", "audit", str(path), *option).returncode == 0
    shutil.rmtree(theirs)


def test_a_row_that_is_no_record_is_left_out_and_said_with_its_number(root: Path) -> None:
    rows = [dict(FORMS["tools as a list"][1](k)) for k in range(N)]
    rows[3] = {"messages": talk(3, {"role": "assistant", "content": "I cannot do that."}), "tools": TOOLS}
    rows[4] = {"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "tools": TOOLS}
    (root / "theirs.jsonl").write_bytes(jsonl(rows))
    done = calling.called(root, "task", "import", "theirs.jsonl", "--to", "ours.jsonl")
    assert done.returncode == 0 and f"{N - 2} records" in done.stdout
    assert "1 row left out, first 4: an answer in words where a call of a function is due" in done.stdout
    assert "1 row left out, first 5: a message with other parts than text" in done.stdout


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"messages": [{"role": "narrator", "content": "x"}]}, "narrator"),
        ({"messages": "hello"}, "no list of messages"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "no user"),
        ({"messages": talk(0, with_calls(0))}, "no tools"),
        (
            {"messages": talk(0, with_calls(0)), "tools": [{"function": {"name": "other"}}]},
            "not among the tools",
        ),
        ({"messages": talk(0, with_calls(0)), "tools": "book"}, "no list of functions"),
        ({"messages": [{"role": "tool", "content": "1"}, {"role": "user", "content": "x"}]}, "a tool said"),
        ({"instruction": "x", "output": "y", "history": [["a", "b", "c"]]}, "no list of pairs"),
        ({"instruction": "x", "output": "y", "history": "none"}, "no list of pairs"),
        ({"a": "x", "b": "y"}, "--columns prompt=NAME"),
        ({"question": "x", "query": "y", "answer": "z"}, "--columns prompt="),
    ],
)
def test_what_no_record_can_say_is_refused_in_words(row: Mapping[str, Any], why: str) -> None:
    with pytest.raises(NotConverted, match=why):
        convert(row, Columns())


def test_columns_of_other_names_are_named_by_an_option(root: Path) -> None:
    (root / "theirs.csv").write_bytes(
        csv_of([{"frage": asked(k), "antwort": f"kind {k}"} for k in range(N)], ",")
    )
    words = ["task", "import", "theirs.csv", "--to", "theirs_records.jsonl"]
    refused = calling.called(root, *words)
    assert refused.returncode == 1 and "--columns prompt=NAME,reference=NAME" in refused.stderr
    assert calling.called(root, *words, "--columns", "prompt=frage,reference=antwort").returncode == 0
    holds(records_of(root), "answer")


def test_rows_without_a_schema_take_one_for_all(root: Path) -> None:
    (root / "order.json").write_text(json.dumps(ORDER))
    rows = [{"instruction": asked(k), "output": json.dumps(right(k))} for k in range(N)]
    (root / "theirs.json").write_text(json.dumps(rows))
    done = calling.called(
        root, "task", "import", "theirs.json", "--to", "theirs_records.jsonl", "--schema", "order.json"
    )
    assert calling.called(root, *fixes(done.stdout)[0]).returncode == 0
    holds(records_of(root), "value")


@pytest.mark.parametrize(
    "content", [b"", b"[", b"\x1f\x8bxx", b"PAR1xx", b"[1, 2]", b"\xff\xfe", b'{"a": NaN}', b"null"]
)
def test_what_is_damaged_is_refused_in_words_and_nothing_is_written(root: Path, content: bytes) -> None:
    (root / "theirs.json").write_bytes(content)
    done = calling.called(root, "task", "import", "theirs.json", "--to", "ours.jsonl")
    calling.refused(done, "theirs.json")
    assert not (root / "ours.jsonl").exists()


def test_a_column_that_is_there_twice_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "theirs.csv"
    path.write_text("prompt,answer,answer\nx,right,wrong\n")
    with pytest.raises(DataError, match="'answer' again"):
        read_rows(path)


def test_what_is_no_number_in_parquet_is_absent(tmp_path: Path) -> None:
    path = tmp_path / "theirs.parquet"
    path.write_bytes(
        parquet_of([{"prompt": "x", "answer": "y", "score": n} for n in (math.nan, math.inf, 1.0)])
    )
    assert [convert(row, Columns()).get("score") for row in read_rows(path)] == [None, None, 1.0]


def test_a_file_that_is_there_is_written_over_only_if_told_to(root: Path) -> None:
    (root / "theirs.jsonl").write_bytes(jsonl([sharegpt(k) for k in range(N)]))
    words = ["task", "import", "theirs.jsonl", "--to", "theirs_records.jsonl"]
    assert calling.called(root, *words).returncode == 0
    calling.refused(calling.called(root, *words), "--force")
    assert calling.called(root, *words, "--force").returncode == 0
    calling.refused(
        calling.called(root, "task", "import", "theirs.jsonl", "--to", "ours.txt"), "--to ours.jsonl"
    )


def test_what_a_record_says_is_right_wins_over_what_was_said_in_its_talk() -> None:
    talk = [
        {"role": "user", "content": "2 + 5?"},
        {"role": "assistant", "content": "<think>so</think> It is 7."},
    ]
    assert convert({"answer": "7", "messages": talk}, Columns())["answer"] == "7"
    named = convert({"answer": "7", "final": "8", "messages": talk}, Columns({"reference": "final"}))
    assert named["answer"] == "8"
    assert convert({"messages": talk}, Columns())["answer"] == talk[1]["content"]


def test_all_splits_of_a_file_are_read_and_each_row_says_its_own(tmp_path: Path) -> None:
    rows = [{"question": asked(k), "answer": f"kind {k}"} for k in range(N)]
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps({"train": rows[:8], "validation": rows[8:9], "test": rows[9:]}))
    found = read_rows(path)
    assert [{name: row[name] for name in ("question", "answer")} for row in found] == rows
    assert [row["split"] for row in found] == ["train"] * 8 + ["validation"] + ["test"] * 3
    path.write_text(json.dumps({"data": rows, "records": rows}))
    with pytest.raises(DataError, match="found data, records"):
        read_rows(path)


PAIRS: dict[str, Made] = {
    "hh": lambda k: {
        name: f"\n\nHuman: {asked(k)}\n\nAssistant: {said}"
        for name, said in (("chosen", f"kind {k}"), ("rejected", "no"))
    },
    "of messages": lambda k: {
        name: talk(k, {"role": "assistant", "content": said})
        for name, said in (("chosen", f"kind {k}"), ("rejected", "no"))
    },
    "with a prompt": lambda k: {"prompt": asked(k), "chosen": f"kind {k}", "rejected": "no"},
    "messages with a prompt": lambda k: {
        "prompt": asked(k),
        "chosen": talk(k, {"role": "assistant", "content": f"kind {k}"}),
        "rejected": talk(k, {"role": "assistant", "content": "no"}),
    },
}


@pytest.mark.parametrize("name", PAIRS)
def test_of_pairs_the_preferred_answer_is_right_only_if_somebody_says_so(root: Path, name: str) -> None:
    (root / "theirs.jsonl").write_bytes(jsonl([PAIRS[name](k) for k in range(N)]))
    assert (name_form(PAIRS[name](0)) or "").startswith("pairs of answers")
    words = ["task", "import", "theirs.jsonl", "--to", "theirs_records.jsonl"]
    refused = calling.called(root, *words)
    fix = refused.stderr.rpartition("Fix: ")[2].partition(",")[0].split()
    assert refused.returncode == 1 and fix == ["--columns", "reference=chosen"]
    assert calling.called(root, *words, *fix).returncode == 0
    holds(records_of(root), "answer")


@pytest.mark.parametrize(
    ("row", "fix"),
    [
        (
            {"question": [[{"role": "user", "content": "x"}]], "function": BARE},
            "put the ground_truth of each id",
        ),
        ({"question": [[{"role": "user", "content": "x"}]] * 2, "function": BARE}, "leave such rows out"),
        ({"frage": "x", "antwort": "y"}, "--columns prompt=NAME,reference=NAME"),
        ({"messages": talk(0, with_calls(0)), "tools": []}, "write a prompt into each row"),
    ],
)
def test_where_no_row_is_read_the_fix_is_that_of_the_reason(
    root: Path, row: Mapping[str, Any], fix: str
) -> None:
    (root / "theirs.jsonl").write_bytes(jsonl([row]))
    done = calling.called(root, "task", "import", "theirs.jsonl", "--to", "ours.jsonl")
    assert done.returncode == 1 and f"Fix: {fix}" in done.stderr, done.stderr


def test_a_row_whose_tools_are_none_is_left_out_beside_others_and_said(root: Path) -> None:
    rows = [dict(FORMS["tools as a list"][1](k)) for k in range(N)]
    rows[3] = dict(FORMS["tools that are none"][1](3))
    (root / "theirs.jsonl").write_bytes(jsonl(rows))
    done = calling.called(root, "task", "import", "theirs.jsonl", "--to", "ours.jsonl")
    assert done.returncode == 0 and f"{N - 1} records" in done.stdout
    assert "1 row left out: no schema and no tools, beside rows that have them" in done.stdout


def test_a_record_whose_prompt_is_a_template_needs_no_import() -> None:
    prompt = "### Instruction:\nAdd 1 and 1.\n\n### Response:\n"
    assert name_form({"prompt": prompt, "answer": "2"}) is None
    assert convert({"prompt": prompt, "answer": "2"}, Columns())["prompt"] == prompt


def test_a_label_of_what_was_liked_is_no_answer() -> None:
    with pytest.raises(NotConverted, match="label says whether a completion was liked"):
        convert({"prompt": "2 + 5?", "completion": "8", "label": False}, Columns())
    told = convert({"prompt": "Is 7 even?", "label": False}, Columns())
    assert told["answer"] is False, "a question of yes and no"


def test_calls_of_anthropic_and_xlam_are_golds() -> None:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    said = [
        {"type": "text", "text": "Well."},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1}},
    ]
    talk = [{"role": "user", "content": "Go."}, {"role": "assistant", "content": said}]
    tools = [{"name": "f", "input_schema": parameters}]
    record = convert({"messages": talk, "tools": tools}, Columns())
    assert record["gold"] == {"f": {"n": [1]}}
    assert record["functions"] == [{"name": "f", "parameters": parameters}]
    flat = {"n": {"type": "int", "description": "How many."}, "to": {"type": "str, optional"}}
    row = {"query": "Go.", "answers": json.dumps([{"name": "f", "arguments": {"n": 1}}])}
    record = convert({**row, "tools": json.dumps([{"name": "f", "parameters": flat}])}, Columns())
    assert record["gold"] == {"f": {"n": [1]}} and "answers" not in record
    (function,) = record["functions"]
    assert function["parameters"]["required"] == ["n"]
    assert function["parameters"]["properties"]["n"] == {"type": "integer", "description": "How many."}


FLOW = "<|user|>\nq1<|end|>\n<|assistant|>\na1<|end|>\n<|user|>\nq2<|end|>\n<|assistant|>\na2<|end|>"
TWO = [
    {"role": "user", "content": "q1"},
    {"role": "assistant", "content": "a1"},
    {"role": "user", "content": "q2"},
]
SYSTEM = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "q2"}]
CUT_OFF = "<tool_call>" + " " * 20_000
SAID_TWICE: Mapping[str, tuple[Mapping[str, Any], Any, str]] = {
    "the first question beside its talk": (
        {"prompt": "q1", "messages": [*TWO, {"role": "assistant", "content": "a2"}]},
        TWO,
        "a2",
    ),
    "a prompt and its answer beside a talk": (
        {"prompt": "q2", "messages": [*TWO, {"role": "assistant", "content": "so a2"}], "answer": "a2"},
        "q2",
        "a2",
    ),
    "Alpaca's columns beside its text": (
        {
            "instruction": "q1",
            "input": "q2",
            "output": "a2",
            "text": "### Instruction:\nq1\n\n### Response:\na2",
        },
        "q1\n\nq2",
        "a2",
    ),
    "question and answer beside a text": (
        {"question": "q2", "answer": "a2", "text": "USER: q2\nASSISTANT: so it is a2"},
        "q2",
        "a2",
    ),
    "Zephyr or Phi": ({"text": FLOW}, TWO, "a2"),
    "a system message before Vicuna's marks": (
        {"text": "Be kind.\nUSER: q2\nASSISTANT: a2</s>"},
        SYSTEM,
        "a2",
    ),
    "a system message before headings": (
        {"text": "Be kind.\n\n### Instruction:\nq2\n\n### Response:\na2"},
        SYSTEM,
        "a2",
    ),
    "a prompt that speaks of control tokens": (
        {"prompt": "Write <|im_start|>user and then <|im_start|>assistant", "answer": "a2"},
        "Write <|im_start|>user and then <|im_start|>assistant",
        "a2",
    ),
    "a content in parts": (
        {
            "messages": [
                {"role": "user", "content": {"content_type": "text", "parts": ["q2"]}},
                {"role": "ai", "content": {"text": "a2"}},
            ]
        },
        "q2",
        "a2",
    ),
}


@pytest.mark.parametrize("name", SAID_TWICE)
def test_what_is_asked_is_what_was_answered_with_all_that_was_said_before(name: str) -> None:
    row, asks, answer = SAID_TWICE[name]
    record = convert(row, Columns())
    assert (record["prompt"], record["answer"]) == (asks, answer)


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": 3}]},
        {"messages": [{"role": "user", "content": "q"}, "a"]},
        {"messages": [{"role": "user", "content": {"image": "q"}}, {"role": "assistant", "content": "a"}]},
        {"question": [], "function": BARE},
        {"messages": [{"role": "user", "content": "q"}, said(0) | {"content": CUT_OFF}], "tools": TOOLS},
        {"text": "Human: q" + "\n" * 50_000 + "Assistant"},
    ],
    ids=lambda row: next(iter(row)),
)
def test_odd_rows_are_left_out_in_words_and_at_once(row: Mapping[str, Any]) -> None:
    name_form(row)
    with pytest.raises(NotConverted):
        convert(row, Columns())


def test_a_split_of_any_name_is_read_and_other_lists_beside_are_not(tmp_path: Path) -> None:
    row = {"prompt": "q", "answer": "a"}
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"train": [row, row], "test_hard": [row], "authors": [{"name": "x"}]}))
    assert [each["split"] for each in read_rows(path)] == ["train", "train", "test_hard"]
