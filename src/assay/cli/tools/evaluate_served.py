"""`assay evaluate --served URL --model NAME`: the evaluation loop on whoever answers there. No torch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from assay.cli.tools import evaluate
from assay.cli.tools.evaluate import EvaluationRequest
from assay.cli.tools.tasks_file import note_asked
from assay.core.console import complain, progress, say
from assay.core.counting import counted
from assay.core.errors import ConfigError
from assay.core.records import Episode
from assay.core.storage.json import write_json
from assay.core.storage.locks import hold
from assay.rollout.evaluation.phases import Stopwatch, latency
from assay.rollout.evaluation.served import play_served
from assay.rollout.policy.served.asking import Served
from assay.rollout.policy.served.client import ServedAnswer, client_of
from assay.rollout.policy.served.identity import (
    Prices,
    facts_of,
    facts_said,
    find_answer_cautions,
    find_served_cautions,
    identity_of,
    settings_of,
)
from assay.rollout.policy.served.journal import Journal
from assay.rollout.policy.served.request import ServedModel, check_extra

SILENCE = 15.0  # seconds without an answer, after which one is told what is waited for
_SIGNS = re.compile(r"[^A-Za-z0-9._-]+")


def run(root: Path, asked: EvaluationRequest, of: ServedModel) -> None:
    """Play, print a table, and write what `assay evaluate` writes; beside it answers.jsonl and served.json.

    Raises:
        ConfigError: What was asked for cannot be.
        PolicyError: The server does not answer, or refuses.
        RecordError: The answers that are kept cannot be read; nothing was changed.
        RunningAlready: Another process plays there.
    """
    beside = {"--policy": asked.policy, "--player": asked.player, "--batch-size": asked.batch_size}
    if option := next((name for name, value in beside.items() if value is not None), None):
        fix = f"leave one of the two out{'; --in-flight says how many at once' * (option == '--batch-size')}"
        raise ConfigError("a folder or a served model", found=option, where="--served", fix=fix)
    ready = evaluate.prepare(root, asked)
    decoding, limit = ready.decoding, ready.task.max_prompt_tokens
    check_extra(of.extra, decoding.max_new_tokens)
    client = client_of(of)
    cards = client.cards()
    identity = identity_of(of.model, settings_of(decoding, of.extra), cards)
    cautions = evaluate.find_suite_cautions(ready.project, ready.suite)
    for caution in (*cautions, *find_served_cautions(identity, cards, limit)):
        complain(caution)
    question = [identity.digest, str(ready.best_of), client.url]
    slug = _SIGNS.sub("-", of.model).strip("-.")[-40:] or "served"
    out = asked.out or evaluate.default_folder(root, ready, asked.tasks, slug, question)
    plays = ready.suite.plays()
    with hold(out / "answers.lock"), Journal(out / "answers.jsonl") as journal:
        if journal.found:
            complain(f"{journal.found} answers of an earlier call are in {out}, and are not asked for again")
        served = Served(client, journal, identity, decoding.max_new_tokens)
        note_asked(ready.project, ready.suite, identity.digest, identity.digest)
        with progress("evaluate: episodes", len(plays)) as advance:
            stopwatch = Stopwatch(advance)
            played = say_waiting(len(plays), of.in_flight, stopwatch)
            with played as heard:
                found = play_served(
                    served,
                    ready.task,
                    plays,
                    in_flight=of.in_flight,
                    retries=ready.project.params.health.retries,
                    progress=heard,
                )
    prices = None
    if of.price_in is not None and of.price_out is not None:
        prices = Prices(prompt=of.price_in, completion=of.price_out)
    facts = facts_of(identity, found.answers, kept=found.kept, again=client.again, prices=prices)
    report = evaluate.report_of(ready, found.episodes, facts.policy_digest)
    if facts.without_usage:
        report = evaluate.without_tokens(report)
    hidden, name = sum(each.hides_all for each in found.answers), f"served {of.model}"
    evaluation = evaluate.evaluation_of(ready, asked.tasks, name, report, found.episodes, hidden=hidden)
    took, kept = None, len(found.episodes) - len(found.played)
    if found.played:
        took = latency(found.played, stopwatch.seconds, kept=kept)
    write_json(out / "served.json", facts)
    billed = facts.completion_tokens
    evaluate.conclude(out, ready, evaluation, found.episodes, took, billed=billed)
    for line in facts_said(facts):
        say(line)
    for caution in (*find_answer_cautions(facts, limit), *find_repeated(found.episodes, found.answers)):
        complain(caution)


@contextmanager
def say_waiting(
    total: int, in_flight: int, told: Callable[[int], object], seconds: float = SILENCE
) -> Iterator[Callable[[int], None]]:
    """Yield what is told how many episodes have ended, and passes it on; say how many answers are waited for
    where none comes for so many seconds."""
    ended, over = 0, Event()

    def hear(n: int) -> None:
        nonlocal ended
        ended += n
        told(n)

    def watch() -> None:
        before, said = -1, -1
        while not over.wait(seconds):
            if ended == before != said:
                complain(f"evaluate: waiting for {counted(min(total - ended, in_flight), 'answers')}")
                said = ended
            before = ended

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield hear
    finally:
        over.set()
        watcher.join()


def find_repeated(episodes: Sequence[Episode], answers: Sequence[ServedAnswer]) -> list[str]:
    """Say so if all draws of every item say the same, thoughts included, and anything at all.

    Args:
        episodes: As they were played.
        answers: Behind their turns, in the same order.
    """
    left, drawn = iter(answers), dict[str, set[tuple[str, ...]]]()
    for each in episodes:
        said = (next(left) for _ in each.turns)
        texts = tuple(text for answer in said for text in (answer.text, answer.reasoning or ""))
        drawn.setdefault(each.item_id, set()).add(texts)
    silent = not any(answer.text.strip() for answer in answers)
    if silent or len(episodes) == len(drawn) or any(len(texts) > 1 for texts in drawn.values()):
        return []
    same = "all draws of every item are the same text"
    return [f"{same}: the server decodes greedily whatever it is asked, or the model is sure of all of them"]
