"""V3, what was measured: one suite for all arms, every draw in its place, every token by the base's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

from assay.core.config.settings import ScratchBase
from assay.core.counting import counted
from assay.core.records import Episode
from assay.package.verification.checks import SHOWN, LookResult, ids_digest
from assay.package.verification.content.training import learning_rates
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.inputs import secondary_file
from assay.pipeline.note_openings import recipe_of
from assay.pipeline.rival_files import file_of
from assay.rollout.dataset.external import whole_of
from assay.rollout.dataset.suite import Play, Suite
from assay.rollout.evaluation.trajectory import open_item
from assay.rollout.tasks.protocol import Task
from assay.rollout.tasks.rivals import FEW_SHOT, MORE_SFT
from assay.stages.render_evidence.arms import AGAIN, CONTROL

BEFORE, AFTER = "pre_eval", "post_eval"
WHOLE = "of the whole model:"
CHANCE = 1e-6  # what is less likely than this was not drawn
APART = 0.5  # of the items of two arms with the same texts: where there are fewer, the policies are far apart
Texts = list[tuple[str, ...]]
_PROMPT = re.compile(r"[0-9a-f]{16}")


def suites_equal(package: Unpacked) -> LookResult:
    """Check that plan and reports name the suite that settings and data make."""
    suite, wrong = package.heldout, []
    told = [("claim_plan.json", package.plan.suite_digest, suite.digest)]
    for arm, report in package.reports.items():
        told.append((f"reports.json, {arm}", report.suite_digest, package.suite_of(arm).digest))
    for name, planned in package.plan.secondary_suites.items():
        expected = package.suite_of(secondary_file(BEFORE, name)).digest
        told.append((f"claim_plan.json, {name}", planned.suite_digest, expected))
    for name, found, expected in told:
        if found != expected:
            wrong.append(f"{name}, suite_digest: {found[:16]}; settings and data make {expected[:16]}")
    size = f"{counted(len(suite.items), 'items')} x {counted(suite.draws, 'draws')}"
    return LookResult(f"suite {suite.digest[:16]} ({size}) in the plan and all arms", wrong)


def draws_complete(package: Unpacked) -> LookResult:
    """Check that every play of every suite is there once, in its place, with the seed that its labels
    give."""
    wrong, n = [], 0
    for name in package.arms:
        episodes = package.episodes(name)
        wrong += _out_of_place(package.suite_of(name), episodes, f"{name}.jsonl", package)
        n += len(episodes)
    for step, sampled, greedy in package.validations:
        wrong += _out_of_place(
            package.validation, sampled, f"validation.jsonl, step {step}, sampled", package
        )
        wrong += _out_of_place(
            replace(package.validation, draws=1), greedy, f"validation.jsonl, step {step}, greedy", package
        )
        n += len(sampled) + len(greedy)
    order = [(line.step, line.greedy) for line in package.validation_lines]
    if order != sorted(order):
        wrong.append("validation.jsonl: not by step, sampled before greedy")
    return LookResult(
        f"{counted(n, 'episodes')}, each draw of each item once and in its place, with the seed of its"
        " labels",
        wrong,
    )


def _out_of_place(suite: Suite, episodes: list[Episode], name: str, package: Unpacked) -> list[str]:
    plays, wrong = suite.plays(), []
    if len(plays) != len(episodes):
        are = "is" if len(plays) == 1 else "are"
        return [f"{name}: {counted(len(episodes), 'episodes')}, {len(plays)} {are} planned"]
    params = package.project.params
    limit = params.task.max_new_tokens[params.generation.surface]
    for number, (play, episode) in enumerate(zip(plays, episodes, strict=True), start=1):
        planned, found = (play.item.id, play.draw, play.seed), (episode.item_id, episode.draw, episode.seed)
        if planned != found:
            wrong.append(f"{name}, episode {number}: item, draw and seed are {found}, planned is {planned}")
        for turn in episode.turns:
            if not _PROMPT.fullmatch(turn.prompt_digest):
                wrong.append(f"{name}, episode {number}: prompt_digest {turn.prompt_digest!r:.40}")
            if not 0 < turn.n_tokens <= limit or (turn.truncated and turn.n_tokens != limit):
                wrong.append(f"{name}, episode {number}: {counted(turn.n_tokens, 'tokens')}, {limit} at most")
    return wrong


def openings_equal(package: Unpacked) -> LookResult:
    """Check that all arms and validations were shown the same opening of an item, and lost the same of it;
    but for the rival with examples before it, and a whole model that was brought, which were shown the same
    in all their draws."""
    shown: dict[tuple[str, str], tuple[str, int]] = {}
    wrong = []
    behind = file_of(FEW_SHOT)
    told = [(name, _opened_by(package, name, behind), package.episodes(name)) for name in package.arms]
    told += [
        (f"validation.jsonl, step {v.step}", "validation", [*v.sampled, *v.greedy])
        for v in package.validations
    ]
    for name, split, episodes in told:
        for episode in episodes:
            opening = (episode.turns[0].prompt_digest if episode.turns else "", episode.prompt_chars_cut)
            if shown.setdefault((split, episode.item_id), opening) != opening:
                wrong.append(
                    f"{name}: item {episode.item_id}, draw {episode.draw} was opened otherwise than before"
                )
    n = len({(split, item) for split, item in shown if split != behind and not split.startswith(WHOLE)})
    own = "; the whole model by its own tokenizer" if whole_of(package.told) else ""
    return LookResult(f"{counted(n, 'items')}, each opened with the same prompt in every arm{own}", wrong)


def _opened_by(package: Unpacked, arm: str, behind: str) -> str:
    """Return the split of an arm, or by what else its prompts have to be the same."""
    split = arm.partition("/")[2] or "heldout"
    if arm == behind:
        return arm
    return f"{WHOLE} {split}" if arm.startswith(AFTER) and whole_of(package.told) else split


def policies_named(package: Unpacked) -> LookResult:
    """Check that the arms were played by the base and by what was trained on it, and the control by
    neither."""
    trained, control = package.told, package.control
    expected = {
        "pre_eval": trained.base_digest,
        "pre_eval_greedy": trained.base_digest,
        "post_eval": trained.policy_digest,
        "post_eval_greedy": trained.policy_digest,
        AGAIN: trained.base_digest,
        CONTROL: control.policy_digest,
    } | {file_of(name): trained.base_digest for name in package.rivals}
    if MORE_SFT in package.rivals and (more := package.reports.get(file_of(MORE_SFT))) is not None:
        others = (trained.base_digest, trained.policy_digest, control.policy_digest)
        expected[file_of(MORE_SFT)] = None if more.policy_digest in others else more.policy_digest
    for suite in package.project.params.played[1:]:
        expected[secondary_file("pre_eval", suite)] = trained.base_digest
        expected[secondary_file("post_eval", suite)] = trained.policy_digest
    wrong = []
    for name in package.arms:
        if name not in package.reports or package.reports[name].policy_digest != expected[name]:
            source = "control.json" if name == CONTROL else "train.json"
            wrong.append(f"reports.json, {name}, policy_digest: not that of {source}")
        wrong += _of_another(f"{name}.jsonl", package.episodes(name), expected[name])
    weights = {row["step"]: row["digests"]["weights"] for row in package.log}
    for step, sampled, greedy in package.validations:
        wrong += _of_another(f"validation.jsonl, step {step}", [*sampled, *greedy], weights.get(step))
    asked = "random_reward" in package.project.params.claim.controls
    if control.asked != asked:
        wrong.append(f"control.json, asked: {control.asked}; claim.controls of params.yaml says {asked}")
    told = (control.seed, control.steps, control.base_digest)
    of = package.trained if control.asked else None
    params = package.project.params
    if of is not None and told != (of.seed, params.control_steps, of.base_digest):
        wrong.append("control.json: seed, steps or base are not those of train.json and params.yaml")
    if params.evaluation.open and (package.opened.policy_digest, package.opened.family) != (
        trained.policy_digest,
        recipe_of(params).family,
    ):
        wrong.append("openings.json: policy or family is not that of train.json and params.yaml")
    if control.policy_digest in (trained.base_digest, trained.policy_digest):
        wrong.append("control.json, policy_digest: that of another arm")
    beside = ", another as control" if asked else ""
    said = f"base {trained.base_digest[:16]} before, {trained.policy_digest[:16]} after{beside}"
    return LookResult(f"{said}; each episode names who played it", wrong)


def _of_another(name: str, episodes: Sequence[Episode], expected: str | None) -> list[str]:
    """Return which episode first names another policy than the one whose place it stands in."""
    odd = [each for each in episodes if each.policy != expected]
    if not odd:
        return []
    first = (
        f"item {odd[0].item_id}, draw {odd[0].draw} names {str(odd[0].policy)[:16]}, expected"
        f" {str(expected)[:16]}"
    )
    return [f"{name}: {counted(len(odd), 'episodes')} of another policy ({first})"]


def arms_apart(package: Unpacked) -> LookResult:
    """Check that no arm is a copy of another: draws share their seeds, so policies that differ coincide
    often, and not always.

    Two arms alike in every text are called a copy only where a third shows that training by no more than
    theirs moved a policy far from the base: one that learned next to nothing, or whose step 0 was chosen,
    plays as the base to the letter.
    """
    learned = _learned(package)
    texts = {name: texts_of(package.episodes(name)) for name in learned}
    pairs = {(one, other): share_of(texts[one], texts[other]) for one, other in combinations(learned, 2)}
    wrong, alike = [], []
    for (one, other), share in pairs.items():
        if share < 1.0 or (learned[one], learned[other]) == (0.0, 0.0):
            continue
        alike.append(f"{other} and {one}")
        most = max(learned[one], learned[other])
        if any(
            pairs[BEFORE, each] < APART and 0 < learned[each] <= most for each in learned if each != BEFORE
        ):
            wrong.append(
                f"{other}.jsonl: the texts of every item are those of {one}.jsonl, though another policy"
                " wrote them"
            )
    for suite in package.project.params.played[1:]:
        one, other = (secondary_file(stage, suite) for stage in (BEFORE, "post_eval"))
        share = pairs[one, other] = share_of(
            texts_of(package.episodes(one)), texts_of(package.episodes(other))
        )
        if share == 1.0 and pairs[BEFORE, "post_eval"] < APART:
            wrong.append(f"{other}.jsonl: the texts of every item are those of {one}.jsonl")
    told = ", ".join(f"{other} and {one} {100 * share:.0f} %" for (one, other), share in pairs.items())
    said = f"items whose texts are all the same: {told}"
    if alike and not wrong:
        return LookResult(
            f"{said}; so little was learned that a copy could not be told from what was played",
            outcome="not shown",
        )
    return LookResult(said, wrong)


class Drawn(NamedTuple):
    """What one draw of an item came to; `told` is its texts, or what a table keeps of them."""

    item_id: str
    draw: int
    success: bool
    told: object


def drawn(episodes: Sequence[Episode]) -> list[Drawn]:
    """Return episodes as no more than that."""
    texts = (tuple(turn.completion for turn in each.turns) for each in episodes)
    return [
        Drawn(each.item_id, each.draw, each.success, text) for each, text in zip(episodes, texts, strict=True)
    ]


def validated(package: Unpacked, step: int) -> list[Drawn]:
    """Return the sampled draws of the validation at a step; none where it was lost."""
    return drawn(next((each.sampled for each in package.validations if each.step == step), []))


def draws_apart(package: Unpacked, of: Callable[[Any, int], list[Drawn]] = validated) -> LookResult:
    """Check that no draws were put in the place of others: where the validation of the chosen step, at the
    same temperature, shows draws of one item that differ, those of the held-out suite do so somewhere too."""
    if package.elsewhere:
        return LookResult("trained elsewhere: no validation shows how far draws differ", outcome="not shown")
    step = package.trained.chosen_step
    told, wrong = merged_draws([(drawn(package.episodes(AFTER)), of(package, step))])
    return LookResult(f"{told}, as in the validation of step {step}", wrong)


def merged_draws(pairs: Sequence[tuple[Sequence[Drawn], Sequence[Drawn]]]) -> tuple[str, list[str]]:
    """Return how many held-out items have draws that differ, and what of it chance does not explain.

    If items of both suites differ equally often, and v of m + n in all are validation's, then all v of them
    are validation's with probability below (m / (m + n)) ** v.

    Args:
        pairs: Of each policy its draws in the held-out suite and in a validation.
    """
    said, wrong = "", []
    for name, of in (("success", lambda each: each.success), ("texts", lambda each: each.told)):
        here, there, n, m = 0, 0, 0, 0
        for heldout, validation in pairs:
            draws = 1 + min(max((each.draw for each in part), default=0) for part in (heldout, validation))
            differ, items = _differing(heldout, draws, of)
            here, n = here + differ, n + items
            differ, items = _differing(validation, draws, of)
            there, m = there + differ, m + items
        said = f"the draws of {here} of {counted(n, 'items')} differ in {name}"
        if here == 0 and m and (m / (m + n)) ** there < CHANCE:
            wrong.append(f"{AFTER}.jsonl: {said}, and of {there} of {m} in the validation of the chosen step")
    return said, wrong


def _differing(draws: Sequence[Drawn], first: int, of: Callable[[Drawn], object]) -> tuple[int, int]:
    """Return how many items have draws that differ, among the first so many, and how many items there are."""
    found: dict[str, set[object]] = {}
    for each in draws:
        if each.draw < first:
            found.setdefault(each.item_id, set()).add(of(each))
    return sum(len(each) > 1 for each in found.values()), len(found)


def _learned(package: Unpacked) -> dict[str, float]:
    """Return how far the training of each policy can have moved it, as the sum of its learning rates; of one
    that was trained elsewhere only that it may have."""
    if package.elsewhere:
        return {BEFORE: 0.0, "post_eval": 1.0}
    steps = {BEFORE: 0, "post_eval": package.trained.chosen_step}
    if CONTROL in package.arms:
        steps[CONTROL] = package.control.chosen_step or 0
    rates = learning_rates(package.project.params.train)
    return {name: sum(rates[:step]) for name, step in steps.items()}


def share_of(one: Mapping[str, Texts], other: Mapping[str, Texts]) -> float:
    """Return of how many of the items of one arm another has the very same texts."""
    return sum(texts == other.get(item) for item, texts in one.items()) / max(1, len(one))


def texts_of(episodes: Sequence[Episode]) -> dict[str, Texts]:
    """Return the texts of all draws of each item, in an order of their own, so that draws that were moved
    about do not hide."""
    found: dict[str, Texts] = {}
    for episode in episodes:
        found.setdefault(episode.item_id, []).append(tuple(turn.completion for turn in episode.turns))
    return {item: sorted(texts) for item, texts in found.items()}


def tokens_counted(package: Unpacked) -> LookResult:
    """Read every episode by the base's words: prompts, numbers of tokens, and which completions were cut."""
    if not isinstance(package.project.params.base, ScratchBase):
        said = (
            f"prompts and numbers of tokens: the tokenizer of {package.base.get('model')} is not in the"
            " package"
        )
        return LookResult(f"{said}; V4 with --base DIR counts what it plays again", outcome="not shown")
    plain, n, turns, lost, wrong = _Reader(package, package.replayed), 0, 0, 0, list[str]()
    whole = whole_of(package.told)
    other = whole is not None and (whole.other_tokenizer or whole.n_other_prompts > 0)
    for name, suite, episodes in _told(package):
        if other and name.startswith(AFTER):
            continue
        behind = name == f"{file_of(FEW_SHOT)}.jsonl"
        reader = _Reader(package, package.shown[0]) if behind else plain
        for play, episode in zip(suite.plays(), episodes, strict=False):
            n, turns = n + 1, turns + len(episode.turns)
            lost += any(not package.words.keeps(turn.completion) for turn in episode.turns)
            wrong += [
                f"{name}, item {episode.item_id}, draw {episode.draw}: {fault}"
                for fault in reader.faults(play, episode)
            ]
            if len(wrong) > SHOWN:
                return LookResult("", wrong)
    said = (
        f"{counted(turns, 'completions')} of {counted(n, 'episodes')} have the tokens that are stored of"
        " them, "
    )
    said += "and follow the prompts whose digests are stored"
    if lost:
        said += (
            f"; {counted(lost, 'episodes')} only up to bytes that are no text, which were stored as a mark"
        )
    if other:
        said += "; not those of the whole model, whose tokenizer or template is not in the package"
    return LookResult(said, wrong)


def _told(package: Unpacked) -> Iterator[tuple[str, Suite, Sequence[Episode]]]:
    for name in package.arms:
        yield f"{name}.jsonl", package.suite_of(name), package.episodes(name)
    single = replace(package.validation, draws=1)
    for step, sampled, greedy in package.validations:
        yield f"validation.jsonl, step {step}, sampled", package.validation, sampled
        yield f"validation.jsonl, step {step}, greedy", single, greedy


class _Reader:
    """Reads episodes as the tokenizer of the package's base does; openings are kept, since all draws of an
    item share one."""

    def __init__(self, package: Unpacked, task: Task) -> None:
        self._task, self._words = task, package.words
        self._opened: dict[tuple[str, int], tuple[list[int], int]] = {}

    def faults(self, play: Play, episode: Episode) -> Iterator[str]:
        """Yield the first thing in which an episode is not what its words make it, or nothing."""
        ids, cut = self._opening(play)
        if cut != episode.prompt_chars_cut:
            yield f"prompt_chars_cut {episode.prompt_chars_cut}; {cut} do not fit"
            return
        for number, turn in enumerate(episode.turns, start=1):
            if ids_digest(ids) != turn.prompt_digest:
                yield f"turn {number} was written after another prompt than its task and its words make"
                return
            if not self._words.keeps(turn.completion):
                return  # what stands behind it is as little known
            ends = [] if turn.truncated else [self._words.eos_id]
            written = turn.n_tokens - len(ends)
            follows = episode.turns[number].prompt_digest if number < len(episode.turns) else None
            readings: Iterator[Sequence[int]] = (
                self._words.readings(turn.completion, written) if written >= 0 else iter(())
            )
            if follows is None:
                found = next(readings, None)
            else:
                read = ([*ids, *each, *ends] for each in readings)
                told = str(turn.observation)
                ahead = ([*each, *self._words.reply(told, last_id=each[-1])] for each in read if each)
                found = next((each for each in ahead if ids_digest(each) == follows), None)
            if found is None:
                end = "cut at the limit" if turn.truncated else "and an end"
                behind = "" if follows is None else ", and the next prompt behind them"
                yield (
                    f"turn {number}: {turn.n_tokens} tokens, {end}{behind}, cannot be {turn.completion!r:.60}"
                )
                return
            ids = list(found)

    def _opening(self, play: Play) -> tuple[list[int], int]:
        key = (play.item.id, play.world_seed)
        if key not in self._opened:
            opening = open_item(self._task, self._words, play.item, play.world_seed)
            self._opened[key] = (opening.prompt_ids, opening.chars_cut)
        return self._opened[key]
