"""Logs of inspect (inspect_ai), .eval and .json: samples with epochs, scores and stop reasons. Its package is
not needed."""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.rollout.tables.columns import Columns, Meaning, is_cut_off, list_names, look_up
from assay.rollout.tables.lines import parse_json, refuse
from assay.verdict.evidence.words.remarks import Remark, remark
from assay.verdict.judge.contents import target_of, text_of
from assay.verdict.judge.forms import cut_off
from assay.verdict.judge.rows import NO_STRATA
from assay.verdict.judge.sources import Reading, number_of, truth_of, whole_of
from assay.verdict.judge.written import texts_in

# What inspect's own value_to_float makes of these letters.
LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
MOST_BYTES = 2_000_000_000  # of one part of a log, unpacked
ZSTANDARD = 93  # how newer versions of inspect pack their logs


class InspectLog:
    """One log: its head, and its samples as they are asked for.

    Args:
        path: A .eval or .json.
        value: What a .json holds.

    Raises:
        DataError: It is damaged, or no log of inspect.
    """

    def __init__(self, path: Path, value: Mapping[str, Any] | None = None) -> None:
        self.path, self.where = path, str(path)
        self._samples: list[Any] | None = None
        head: Any = value
        if value is None:
            head = self._part("header.json", whole=True)
        else:
            found = value.get("samples")
            self._samples = found if isinstance(found, list) else []
            if not self._samples:
                fix = "name the log itself, which inspect writes with its samples"
                raise refuse("the samples of the log", "none", self.where, fix)
        if not isinstance(head, dict) or not isinstance(head.get("eval"), dict):
            raise refuse("a log of inspect", "no eval in its head", self.where)
        self.head: Mapping[str, Any] = head
        self.about: Mapping[str, Any] = head["eval"]

    @property
    def task(self) -> str | None:
        """The task's name."""
        found = self.about.get("task")
        return found if isinstance(found, str) else None

    @property
    def obstacles(self) -> list[Remark]:
        """What bars a claim: a log that was not finished."""
        status = "invalidated" if self.head.get("invalidated") is True else self.head.get("status")
        told = {"file": self.path.name, "status": str(status)}
        return [] if status == "success" else [remark("inspect_not_whole", **told)]

    def metric(self, asked: str | None) -> str | None:
        """Return which scorer is read, the only one if none was asked for.

        Raises:
            DataError: There are several, and none was asked for.
        """
        if asked is not None:
            return asked
        names = self.scorers
        if len(names) > 1:
            fix = f"--metric with one of them, such as --metric {names[0]}"
            raise refuse("one scorer", list_names(names), self.where, fix)
        return None

    @property
    def scorers(self) -> tuple[str, ...]:
        """The names of its scorers."""
        found = self.about.get("scorers")
        listed = found if isinstance(found, list) else ()
        return tuple(str(each.get("name")) for each in listed if isinstance(each, dict))

    def readings(self, asked: str | None, columns: Columns) -> Iterator[Reading]:
        """Yield every sample of every epoch with the score that was asked for; `columns` name fields of a
        sample, also nested ones, that are read in the place of those that inspect has."""
        for place, sample in self._each():
            if not isinstance(sample, dict) or "id" not in sample:
                raise refuse("a sample with its id", type(sample).__name__, place)
            try:
                yield self._reading(place, sample, asked, columns)
            except (AttributeError, TypeError, KeyError) as error:
                found = f"{type(error).__name__}: {error}"
                raise refuse("a sample as inspect writes it", found, place) from None

    def _each(self) -> Iterator[tuple[str, Any]]:
        if self._samples is not None:
            for number, sample in enumerate(self._samples, start=1):
                yield f"{self.path}, sample {number}", sample
            return
        with self._archive() as log:
            names = [
                name for name in log.namelist() if name.startswith("samples/") and name.endswith(".json")
            ]
            for name in names:
                yield f"{self.path}, {name}", self._part(name, log)

    def _reading(self, place: str, sample: Mapping[str, Any], asked: str | None, columns: Columns) -> Reading:
        def told(meaning: Meaning, otherwise: Any) -> Any:
            return columns.value(meaning, sample, place) if meaning in columns.named else otherwise

        output = sample.get("output") or {}
        choices = output.get("choices") or []
        said = text_of(choices[0].get("message", {}).get("content")) if choices else ""
        usage = output.get("usage") or {}
        messages = sample.get("messages") or []
        shown = [
            (message.get("role"), text_of(message.get("content")))
            for message in messages
            if message.get("role") in ("system", "user")
        ]
        error, limit = sample.get("error"), sample.get("limit")
        ended = limit.get("type") if isinstance(limit, dict) else limit
        fault = "error" if error else "timeout" if ended in ("time", "working") else ""
        why = text_of(error.get("message") if isinstance(error, dict) else error)[:80]
        success = truth_of(told("success", None), place, "success")
        scored = asked is not None or "success" not in columns.named
        value = self._score(place, sample, asked) if scored else None if success is None else float(success)
        if sample.get("invalidation"):
            value, why = None, why or "invalidated"
        opening = shown[: next((k + 1 for k, each in enumerate(shown) if each[0] == "user"), 0)]
        question, target = told("prompt", sample.get("input")), told("reference", sample.get("target"))
        cluster, model = told("cluster", None), told("model", None)
        draw = told("draw", (whole_of(sample.get("epoch", 1), place, "epoch") or 1) - 1)
        truncated = int(bool(limit or (choices and is_cut_off(choices[0].get("stop_reason")))))
        completion = told("completion", None)
        turns = [each for each in messages if each.get("role") == "assistant"]
        return Reading(
            place,
            text_of(told("item", sample["id"])),
            value,
            success,
            whole_of(draw, place, "draw"),
            None if cluster is None else text_of(cluster),
            n_turns=1,
            tokens=whole_of(told("tokens", usage.get("output_tokens")), place, "output_tokens"),
            truncated=cut_off(columns, dict(sample), place) if "truncated" in columns.named else truncated,
            strata=NO_STRATA,
            question=text_of(question),
            target=target_of(target),
            prompt=text_of(told("prompt", opening)),
            completion=(_transcript(turns) or said) if completion is None else text_of(completion),
            model=None if model is None else text_of(model),
            why=why,
            fault=fault,
            edited=scored and _was_edited(sample.get("scores"), asked),
            wrote=texts_in([choices[0].get("message", {})] if completion is None and choices else completion),
        )

    def _score(self, place: str, sample: Mapping[str, Any], asked: str | None) -> float | None:
        """Return the value of one scorer, or of a nested field; `asked` is the scorer's name, name.key of one
        with several values, or a path such as metadata.reward."""
        scores = sample.get("scores") or {}
        if asked is not None and asked.partition(".")[0] not in scores:
            found = look_up(sample, asked)
            if isinstance(found, str | int | float):
                return number_of(found, place, asked)
        if not scores:
            return None
        if asked is None and len(scores) > 1:
            fix = f"--metric with one of them, such as --metric {next(iter(scores))}"
            raise refuse("one scorer", ", ".join(scores), place, fix)
        name, _, key = (asked, "", "") if asked in scores else (asked or next(iter(scores))).partition(".")
        if name not in scores:
            raise refuse(f"the scorer {name}", ", ".join(scores), place, f"--metric {next(iter(scores))}")
        value = scores[name].get("value")
        if isinstance(value, dict):
            if key not in value:
                fix = f"--metric {name}.{next(iter(value), 'KEY')}"
                raise refuse("one value", f"{name} with {', '.join(map(str, value))}", place, fix)
            value = value[key]
        if isinstance(value, float) and math.isnan(value):
            return None  # how a scorer of inspect says that it has no score
        return (
            LETTERS[value]
            if isinstance(value, str) and value in LETTERS
            else number_of(value, place, str(name))
        )

    def _archive(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError) as error:
            fix = "the log is torn: let inspect finish, or copy it again"
            raise refuse("a log of inspect (.eval)", str(error), self.where, fix) from None

    def _zstd(self, entry: zipfile.ZipInfo, place: str) -> bytes:
        """Return a file that is packed by Zstandard, which zipfile knows from Python 3.14 on only.

        Source: APPNOTE.TXT 6.3.9 of PKWARE, sections 4.3.7 (local header) and 4.4.5 (method 93).
        """
        fix = (
            "pip install pyarrow; or inspect log convert --to json --output-dir DIR LOG,"
            " and judge what that writes"
        )
        try:
            import pyarrow as arrow  # type: ignore[import-untyped,unused-ignore]
        except ModuleNotFoundError:
            raise refuse("pyarrow, which unpacks Zstandard", "no such package", place, fix) from None
        if entry.compress_type != ZSTANDARD:
            raise refuse("a zip that can be unpacked", f"compression {entry.compress_type}", place, fix)
        with self.path.open("rb") as stream:
            stream.seek(entry.header_offset)
            head = stream.read(30)
            stream.seek(sum(struct.unpack("<HH", head[26:30])), os.SEEK_CUR)
            packed = stream.read(entry.compress_size)
        try:
            with arrow.input_stream(arrow.BufferReader(packed), compression="zstd") as unpacked:
                content = bytes(unpacked.read(entry.file_size + 1))
        except (arrow.ArrowException, OSError, ValueError) as error:
            raise refuse("a whole log of inspect", str(error), place, "copy the log again") from None
        if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
            raise refuse(
                "a whole log of inspect", "other bytes than it promises", place, "copy the log again"
            )
        return content

    def _part(self, name: str, log: zipfile.ZipFile | None = None, *, whole: bool = False) -> Any:
        """Return one JSON file of a .eval."""
        if log is None:
            with self._archive() as opened:
                return self._part(name, opened, whole=whole)
        place = f"{self.path}, {name}"
        try:
            entry = log.getinfo(name)
            if entry.file_size > MOST_BYTES:
                raise refuse(f"at most {MOST_BYTES:,} bytes", f"{entry.file_size:,}", place)
            with log.open(entry) as stream:
                content = stream.read()
        except KeyError:
            fix = "let inspect finish: it writes the head last"
            raise refuse(f"a log of inspect with {name}", "none", self.where, fix) from None
        except NotImplementedError:
            content = self._zstd(log.getinfo(name), place)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as error:
            raise refuse("a whole log of inspect", str(error), place, "copy the log again") from None
        return parse_json(content, place, last=True)


def _was_edited(scores: object, asked: str | None) -> bool:
    """Return whether the score that is read was changed after it was given: inspect keeps the history of
    each, which begins with the score as it was."""
    every = scores if isinstance(scores, Mapping) else {}
    name = asked if asked in every else (asked or next(iter(every), "")).partition(".")[0]
    found = every.get(name)
    history = found.get("history") if isinstance(found, Mapping) else None
    return isinstance(history, list) and any(
        isinstance(each, Mapping) and each.get("provenance") for each in history
    )


def _transcript(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return all that a model wrote and called in several turns; "" of one turn, whose text says it all."""
    if len(turns) < 2:
        return ""
    calls = [
        [(call.get("function"), call.get("arguments")) for call in each.get("tool_calls") or ()]
        for each in turns
    ]
    return text_of([[each.get("content"), called] for each, called in zip(turns, calls, strict=True)])
