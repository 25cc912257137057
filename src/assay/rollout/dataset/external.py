"""What is known of a training that was done elsewhere, and what is known of either kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from assay.core.config.places import setting
from assay.core.config.training import NamedData
from assay.core.counting import counted
from assay.core.errors import DataError
from assay.core.records import Record, TrainFacts
from assay.core.storage.files import read_text, sha256_bytes
from assay.core.storage.json import loads, read_record
from assay.core.storage.untrusted import read_capped
from assay.rollout.dataset.audit_records import Contamination
from assay.rollout.dataset.source import MAX_FILE_BYTES, DataRow, KeptRecord, read_lines
from assay.rollout.tasks.protocol import Item

DATA = setting("train.data")


class NamedRecords(Record):
    """A file that an external training saw, as whoever brought it says."""

    file: str
    sha256: str
    n_records: int = Field(ge=0, description="records of JSONL, or paragraphs of a text")


class WholeFacts(Record):
    """A whole model that was brought, beside the base that it is compared with."""

    architecture: str
    parameters: int
    base_architecture: str
    base_parameters: int
    other_tokenizer: bool = Field(description="whether it makes other tokens of a text, or has other words")
    n_prompts: int = Field(ge=1, description="prompts of train items that both chat templates wrote")
    n_other_prompts: int = Field(ge=0, description="those of which they wrote different texts")

    @property
    def said(self) -> str:
        """Its architecture and size."""
        return f"{self.architecture} with {self.parameters:,} parameters"


class ExternalFacts(Record):
    """What was taken in place of a training. Steps, seeds, rewards, alarms and how the checkpoint was chosen
    are not known, so there is no field for them."""

    kind: Literal["external"]
    how: str = Field(description="how it was made, in the words of whoever brought it")
    sha256: str = Field(description="of what was brought, as the settings name it")
    claim_plan_sha256: str = Field(description="of claim_plan.json as it stood when it was taken")
    base_digest: str
    policy_digest: str = Field(description="of the base under what was taken, or of a whole model alone")
    whole: WholeFacts | None = Field(default=None, description="of a whole model; None of an adapter")
    served: None = Field(default=None, description="null; of earlier versions, which took models by address")


class NamedFound(Record):
    """What the named files share with data that measure; named_data.json."""

    files: tuple[NamedRecords, ...]
    shared: Contamination = Field(description="train: all that was named; the others: data of the project")


Training = TrainFacts | ExternalFacts


def whole_of(trained: Training) -> WholeFacts | None:
    """Return what is known of a whole model that was brought; None of an adapter, wherever it was trained."""
    return trained.whole if isinstance(trained, ExternalFacts) else None


def read_training(path: Path, *, fix: str) -> Training:
    """Return train.json, of either kind.

    Raises:
        RecordError: It is missing or damaged.
    """
    found = loads(read_text(path, fix=fix), where=path.name, fix=fix)
    if isinstance(found, Mapping) and found.get("kind") == "external":
        return read_record(path, ExternalFacts, fix=fix)
    return read_record(path, TrainFacts, fix=fix)


def named_records(root: Path, named: NamedData) -> list[KeptRecord]:
    """Return the records of a file that was named: lines of JSONL, or the paragraphs of a text.

    Args:
        root: What a relative path begins at.
        named: The file.

    Raises:
        DataError: It is missing, no text, or another than was named.
    """
    fix = "correct train.data, relative to the project; or leave the file out, and the claim says so"
    content = read_capped(root / Path(named.file).expanduser(), max_bytes=MAX_FILE_BYTES, fix=fix)
    if (found := sha256_bytes(content)) != named.sha256:
        raise DataError(
            f"a file of sha256 {named.sha256[:16]}…",
            found=f"{found[:16]}…",
            where=f"{DATA}, {named.file}",
            fix=f"bring the file that was meant; if it is this one, set sha256: {found}",
        )
    if not named.file.endswith((".jsonl", ".json")):
        try:
            texts = [each for each in content.decode("utf-8-sig").split("\n\n") if each.strip()]
        except UnicodeDecodeError as error:
            where = f"{named.file}, byte {error.start}"
            raise DataError("UTF-8 text", found=error.reason, where=where, fix="convert it") from None
        return [kept_record(k, {"prompt": text}) for k, text in enumerate(texts, start=1)]
    read = read_lines(content.split(b"\n"), where=named.file)
    if read.refused:
        first = read.refused[0]
        raise DataError(
            "a JSON object a line",
            found=f"{first.reason} ({counted(len(read.refused), 'lines')} like it)",
            where=f"{named.file}, line {first.number}",
            fix="correct the file, or bring its texts as .txt, a paragraph a record",
        )
    return [kept_record(line.number, line.row) for line in read.lines]


def kept_record(line: int, row: Mapping[str, Any], item: Item | None = None) -> KeptRecord:
    """Return a row as the comparison of splits takes it; without an item, of nobody's task."""
    nobody = Item(str(row.get("id", f"line {line}")), "", {}, None, None)
    return KeptRecord(DataRow(line, row, row, "", None), item or nobody)
