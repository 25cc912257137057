"""A served model in the stages: pinned as base, taken as the trained policy, and let play; what it answered
outlives a kill."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from assay.core.config.places import setting
from assay.core.config.served import ServedBase, ServedModel
from assay.core.config.training import ServedTraining
from assay.core.console import complain, say
from assay.core.decoding import Decoding
from assay.core.errors import PolicyError
from assay.core.records import Episode
from assay.core.storage.files import read_text, write_bytes, write_folder
from assay.core.storage.json import digest, write_json
from assay.core.storage.locks import hold
from assay.dataset.served import Prices, ServedArm, ServedArms, ServedPin
from assay.dataset.suite import Play
from assay.evaluation.served import play_served
from assay.evaluation.written import count_written, find_written_cautions, said_of_written
from assay.pipeline.inputs import task_of
from assay.pipeline.project import Project
from assay.pipeline.resume import run_key
from assay.policy.base.pretrained import POINTER
from assay.policy.served.asking import Served
from assay.policy.served.client import Client, client_of
from assay.policy.served.identity import (
    facts_said,
    find_answer_cautions,
    find_served_cautions,
    identity_of,
    names_of,
    settings_of,
    use_of,
)
from assay.policy.served.journal import Journal
from assay.policy.served.request import Names
from assay.tasks.protocol import Task

BASE, TUNED = "base", "train.served"  # the settings of one, and of the other
PLACES = {BASE: "models/base", TUNED: "models/adapter"}
STAGES = {BASE: "base", TUNED: "train"}  # who pins it
ENDED = "ended.txt"


def _settings(project: Project, who: str) -> tuple[ServedBase, ServedModel]:
    base, train = project.params.served, project.params.train
    assert base is not None, "asked of a base that is not served"
    found = train.served if who == TUNED and isinstance(train, ServedTraining) else base
    return base, found


def _client(project: Project, who: str) -> Client:
    base, model = _settings(project, who)
    names = Names(
        server=setting(f"{who}.url"),
        model=setting(f"{who}.model"),
        key=setting(f"{who}.key_variable"),
        leaves_out=f"null in {setting('base.extra')}",
        pace=f"{setting('base.in_flight')} or base.requests_per_minute",
    )
    return client_of(base, model, names)


def pin_served(project: Project, who: str) -> ServedPin:
    """Write which model it is into its place among the models, and return it; nothing but /v1/models is
    asked.

    Raises:
        ConfigError: Its key is not there.
        PolicyError: The server does not answer, or not with this key.
    """
    client = _client(project, who)
    cards = client.cards()
    pin = _pin(project, who, client.url, cards)
    for caution in find_served_cautions(pin.identity, cards, task_of(project).max_prompt_tokens):
        complain(caution)
    content = json.dumps(pin.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"
    write_folder(project.root / PLACES[who], {POINTER: content.encode()}, check=lambda _: None)
    return pin


def _pin(project: Project, who: str, url: str, cards: Sequence[Mapping[str, Any]] | None) -> ServedPin:
    base, model = _settings(project, who)
    return ServedPin(url=url, identity=identity_of(model.model, base.extra, cards))


def pin_base(project: Project) -> None:
    """Write models/base and base.json of a served base."""
    pin = pin_served(project, BASE)
    told = {"kind": "served", "model": pin.identity.model, "digest": pin.digest, "served": pin.model_dump()}
    write_json(project.results("base.json"), told)
    say(f"base {pin.identity.model} at {pin.url}, digest {pin.digest[:12]} of what is known of it")


def pinned(project: Project, who: str) -> ServedPin:
    """Return which model was pinned.

    Raises:
        PolicyError: None was.
    """
    path, fix = project.root / PLACES[who] / POINTER, f"./run dvc repro --force {STAGES[who]}"
    try:
        return ServedPin.model_validate_json(read_text(path, fix=fix))
    except ValueError:
        raise PolicyError("a served model", found="something else", where=PLACES[who], fix=fix) from None


@dataclass
class ServedPolicy:
    """A served model that plays in a stage."""

    project: Project
    pin: ServedPin
    base_digest: str
    client: Client
    journal: Journal
    prices: Prices | None
    in_flight: int
    arms: dict[str, ServedArm] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Of all that is known of it."""
        return self.pin.digest

    def play(
        self,
        label: str,
        task: Task,
        plays: Sequence[Play],
        decoding: Decoding,
        *,
        progress: Callable[[int], object] | None = None,
    ) -> tuple[list[Episode], list[Episode]]:
        """Play every play once, and return the episodes, and those of them in which something was asked
        now."""
        identity, params = self.pin.identity, self.project.params
        settings = settings_of(decoding, identity.settings)
        asked = identity.model_copy(update={"settings": settings})
        served = Served(self.client, self.journal, asked, decoding.max_new_tokens)
        found = play_served(
            served, task, plays, in_flight=self.in_flight, retries=params.health.retries, progress=progress
        )
        use, names = use_of(found.answers, self.prices), names_of(found.answers)
        self.arms[label] = ServedArm(policy_digest=self.digest, answered_as=names, **dict(use))
        for line in facts_said(use, found.kept, self.client.again):
            say(f"{label}: {line}")
        hidden, cut = sum(each.hides_all for each in found.answers), params.task.cut
        written = count_written(
            task, plays, found.episodes, cut, hidden=hidden, retries=params.health.retries
        )
        say(f"{label}: {said_of_written(written)}")
        for caution in (
            *find_written_cautions(written, use.completion_tokens),
            *find_answer_cautions(use, names, task.max_prompt_tokens),
        ):
            complain(f"{label}: {caution}")
        return found.episodes, found.played


@contextmanager
def served_policy(project: Project, stage: str, who: str, reads: Sequence[str]) -> Iterator[ServedPolicy]:
    """Give the served model that plays in a stage; what it answers is kept, also once the stage has ended.

    A stage that is called again after it ended, with nothing changed, asks anew; with anything changed, such
    as how fast is asked, or the code, it does not pay twice.

    Raises:
        ConfigError: Its key is not there.
        PolicyError: The server does not answer, or says something else of the model than when it was pinned.
        RunningAlready: Another process plays the same.
    """
    base, model = _settings(project, who)
    client, pin = _client(project, who), pinned(project, who)
    if _pin(project, who, client.url, client.cards()) != pin:
        raise PolicyError(
            f"the pinned model {pin.identity.model} ({pin.digest[:16]}…)",
            found="another, by what /v1/models says of it",
            where=client.url,
            fix=f"serve that one, or pin this one: ./run dvc repro --force {STAGES[who]}",
        )
    brought = project.params.external
    # Of what is said to be another training, no answer is taken for this one's, whatever name it has.
    story = [] if who == BASE or brought is None else [brought.how, [each.sha256 for each in brought.data]]
    folder = project.scratch / "served" / f"{stage}-{digest([pin.digest, story])[:16]}"
    key = run_key(project, stage, reads).digest
    with hold(folder / "answers.lock"):
        if _ended(folder) == key:
            shutil.rmtree(folder / "answers", ignore_errors=True)
        (folder / ENDED).unlink(missing_ok=True)
        with Journal(folder / "answers" / "answers.jsonl") as journal:
            if journal.found:
                say(
                    f"{journal.found} answers of an earlier call are kept in .scratch/,"
                    " and are not asked for again"
                )
            prices = None
            if model.price_in is not None and model.price_out is not None:
                prices = Prices(prompt=model.price_in, completion=model.price_out)
            base_digest = pinned(project, BASE).digest
            yield ServedPolicy(project, pin, base_digest, client, journal, prices, base.in_flight)
        write_bytes(folder / ENDED, key.encode())


def _ended(folder: Path) -> str:
    path = folder / ENDED
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write_arms(project: Project, stage: str, *policies: ServedPolicy) -> None:
    """Write what the answers of a stage came to."""
    arms: dict[str, Any] = {}
    for each in policies:
        arms |= each.arms
    write_json(project.results(f"{stage}_served.json"), ServedArms(arms=arms))


open_base = partial(served_policy, who=BASE)
open_tuned = partial(served_policy, who=TUNED)
