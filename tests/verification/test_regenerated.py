"""V4: what base, adapter and seeds really write is played again, so a completion that somebody preferred is
found."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from assay.core.records import Episode
from assay.core.storage.json import read_records, write_jsonl
from assay.package.verification.checks import Check
from assay.package.verification.rerun.explained import slack
from assay.package.verification.rerun.regenerated import first_parting, regenerated
from assay.pipeline.inputs import decoding_of
from assay.pipeline.project import Project
from assay.rollout.dataset.suite import Play, Suite
from assay.rollout.evaluation.replay import graded_again
from assay.rollout.evaluation.rollout import Pace
from assay.rollout.evaluation.rollout import play as played_by
from assay.rollout.evaluation.trajectory import Rollout, episode_of, turn_of
from assay.rollout.policy.model import load
from assay.rollout.policy.renderer import Dialogue
from assay.rollout.tasks.protocol import Task
from assay.stages.render_evidence.arms import suite_of
from tests.verification.small_run import base_folder, small_run

pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)
ALL = 99
BEYOND = ("pre_eval_secondary/heldout_ood", "pre_eval_secondary/traps")
VERDICT = "nc5"  # two words and the end: nothing there, sure by half


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return small_run(tmp_path / "unpacked")


def outcomes(checks: list[Check]) -> dict[str, str]:
    return {check.name: check.outcome for check in checks}


def stored(project: Project, name: str) -> tuple[list[Episode], Suite]:
    episodes = read_records(project.results(f"{name}.jsonl"), Episode, fix="")
    return episodes, suite_of(project, name)


def written_by_hand(task: Task, play: Play, like: Episode) -> Episode:
    """Return an episode that nobody generated, a verdict at once, graded as the task grades it."""
    _, state = task.start(play.item, play.world_seed)
    step = task.step(state, VERDICT)
    assert step.ending is not None
    turn = turn_of(step, VERDICT, 3, False, like.turns[0].prompt_digest)
    episode = episode_of(task, play, step.state, [turn], step.ending, like.prompt_chars_cut)
    return episode.model_copy(update={"policy": like.policy})


def forge(project: Project, name: str, index: int) -> list[Episode]:
    """Put another episode in the place of one, and make everything right that follows from it."""
    episodes, suite = stored(project, name)
    task, play = project.task(), suite.plays()[index]
    before = episodes[index].reward
    episodes[index] = written_by_hand(task, play, episodes[index])
    assert episodes[index].reward != before
    write_jsonl(project.results(f"{name}.jsonl"), episodes)
    assert graded_again(task, suite, episodes, name) == [], "grading again must not be what finds it"
    return episodes


def test_what_the_stages_played_is_played_again_to_the_last_character(project: Project) -> None:
    checks = regenerated(project, batches=ALL)
    assert set(outcomes(checks).values()) == {"passed"}, checks
    assert [check.name for check in checks] == [
        "base",
        *(f"play {name} again" for name in ("pre_eval", "pre_eval_greedy", *BEYOND, "base_again")),
        *(f"play {name.replace('pre', 'post')} again" for name in ("pre_eval", "pre_eval_greedy", *BEYOND)),
    ]
    assert "16 of 16 episodes of units 1, 2, 3, 4 of 4, drawn by --key " in checks[1].found


@pytest.mark.parametrize(
    "names", [("pre_eval", "post_eval", BEYOND[1]), ("base_again", "post_eval_greedy")], ids=" ".join
)
def test_a_completion_nobody_generated_is_found_however_rightly_it_is_graded(
    project: Project, names: tuple[str, ...]
) -> None:
    forged = {}
    for name in names:
        index = 5 if name in ("pre_eval", "base_again", "post_eval") else 1  # the others have a draw an item
        forged[f"play {name} again"] = forge(project, name, index)[index]
    checks = regenerated(project, batches=ALL)
    assert {check.name for check in checks if check.outcome != "passed"} == set(forged)
    for check in (check for check in checks if check.name in forged):
        episode, said = forged[check.name], check.found
        assert check.outcome == "failed"
        assert f"item {episode.item_id}, draw {episode.draw}, turn 1" in said
        assert "1 were not written by this policy" in said and "is stored" in said and "packages" in said


def test_the_answer_of_another_draw_is_found_too(project: Project) -> None:
    episodes, suite = stored(project, "post_eval")
    other = next(k for k in range(1, 4) if episodes[k].turns[0].completion != episodes[0].turns[0].completion)
    forged = episodes[other].model_copy(update={"draw": episodes[0].draw, "seed": episodes[0].seed})
    write_jsonl(project.results("post_eval.jsonl"), [forged, *episodes[1:]])
    assert outcomes(regenerated(project, batches=ALL))["play post_eval again"] == "failed"
    assert suite.plays()[0].seed == forged.seed


def test_a_unit_that_is_not_drawn_is_not_played_and_the_draw_follows_from_the_key(project: Project) -> None:
    forge(project, "post_eval", 5)

    def played(word: str) -> Check:
        return next(c for c in regenerated(project, batches=1, key=word) if c.name == "play post_eval again")

    drawn = {}
    for word in ("a", "b", "c", "d", "e", "f", "g", "h"):
        check = played(word)
        found = (check.outcome, "unit 2 of 4" in check.found)
        if found not in drawn.values():  # one of each is drawn again
            assert played(word) == check
        drawn[word] = found
    assert {("failed", True), ("passed", False)} == set(drawn.values())
    # Where no key is given, nothing in the package decides: each call draws by another, and names it.
    keys = set()
    for _ in range(2):
        check = next(c for c in regenerated(project, batches=1) if c.name == "play post_eval again")
        (key,) = re.findall(r"drawn by --key (\w+)", check.found)
        keys.add(key)
    assert len(keys) == 2 and played(key) == check


def test_another_base_another_adapter_and_missing_plays_are_refused(project: Project, tmp_path: Path) -> None:
    episodes, _ = stored(project, "pre_eval")
    write_jsonl(project.results("pre_eval.jsonl"), episodes[:-1])
    config = project.root / "models/adapter/adapter_config.json"
    config.write_text(config.read_text() + "\n")
    found = {check.name: check for check in regenerated(project, batches=1)}
    assert "does not hold the 16 plays" in found["play pre_eval again"].found
    assert found["play pre_eval again"].outcome == found["play post_eval again"].outcome == "failed"
    assert "of policy" in found["play post_eval again"].found
    shutil.rmtree(project.root / "models/base")
    missing = regenerated(project, batches=1)
    assert [(check.name, check.outcome) for check in missing] == [("base", "not checked")]
    other = regenerated(project, batches=1, base=base_folder(tmp_path / "other", project, seed=1))
    assert [(check.name, check.outcome) for check in other] == [("base", "failed")]


def test_a_base_that_is_not_in_the_package_can_be_named(project: Project, tmp_path: Path) -> None:
    shutil.move(project.root / "models/base", tmp_path / "elsewhere")
    assert set(outcomes(regenerated(project, batches=1, base=tmp_path / "elsewhere")).values()) == {"passed"}


@pytest.mark.parametrize("greedy", [False, True])
def test_rounding_explains_what_was_really_written_and_nothing_that_was_not(
    project: Project, greedy: bool
) -> None:
    policy = load(
        project.root / "models/base", adapter=None, device="cpu", dtype="float32", quantization=None
    )
    name = "pre_eval_greedy" if greedy else "pre_eval"
    episodes, suite = stored(project, name)
    task, plays, decoding = project.task(), suite.plays(), decoding_of(project.params, greedy=greedy)
    shares = [
        slack(policy, task, p, e, decoding, dtype="float32").share
        for p, e in zip(plays, episodes, strict=True)
    ]
    assert max(shares) < 0.01
    words = policy.tokenizer.get_vocab()
    for play, episode in zip(plays, episodes, strict=True):
        turn = episode.turns[0]
        ids = policy.tokenizer(turn.completion, add_special_tokens=False)["input_ids"]
        if not ids:
            continue
        changed = policy.tokenizer.decode([words["q"] if ids[0] != words["q"] else words["j"], *ids[1:]])
        alone = episode.model_copy(update={"turns": (turn.model_copy(update={"completion": changed}),)})
        found = slack(policy, task, play, alone, decoding, dtype="float32")
        assert not found.explained and found.turn == 1 and found.why.startswith("token 1 of"), found


def test_a_turn_of_no_tokens_is_not_what_the_policy_wrote(project: Project) -> None:
    policy = load(
        project.root / "models/base", adapter=None, device="cpu", dtype="float32", quantization=None
    )
    (episodes, suite), task = stored(project, "pre_eval"), project.task()
    at = next(k for k, episode in enumerate(episodes) if len(episode.turns) > 1)
    nothing = episodes[at].turns[0].model_copy(update={"completion": "", "n_tokens": 0, "truncated": True})
    forged = episodes[at].model_copy(update={"turns": (nothing, *episodes[at].turns[1:])})
    found = slack(policy, task, suite.plays()[at], forged, decoding_of(project.params), dtype="float32")
    assert not found.explained and found.turn == 2


def test_which_of_several_ends_a_completion_wrote_is_found_again(project: Project) -> None:
    """The text of an episode goes without its end, and not every model has only one."""
    policy = load(
        project.root / "models/base", adapter=None, device="cpu", dtype="float32", quantization=None
    )
    task, plays, decoding = (
        project.task(),
        project.inputs("heldout").heldout.plays(),
        decoding_of(project.params),
    )
    ended = replace(
        policy, dialogue=Dialogue(policy.tokenizer, ends=[3, *range(5, len(policy.tokenizer), 9)])
    )
    played = played_by(ended, task, plays, decoding, pace=Pace(8))
    episodes = [each.episode for each in played if isinstance(each, Rollout)]
    assert len(episodes) == len(plays) and any(len(episode.turns) > 1 for episode in episodes)
    found = [
        slack(ended, task, at, one, decoding, dtype="float32").share
        for at, one in zip(plays, episodes, strict=True)
    ]
    assert max(found) < 0.01
    single = [
        slack(policy, task, at, one, decoding, dtype="float32").share
        for at, one in zip(plays, episodes, strict=True)
    ]
    assert max(single) > 1, "an end that this model does not have"


def test_a_token_that_rounding_decides_passes_as_such(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stands in for another processor: the stored episodes are those of logits moved by less than is
    allowed."""
    from assay.package.verification.rerun import explained
    from assay.rollout.evaluation import rollout

    real = rollout.play

    def elsewhere(*arguments, **named):  # type: ignore[no-untyped-def]
        played = real(*arguments, **named)
        first = played[0].episode
        turn = first.turns[0].model_copy(update={"completion": "another"})
        return [
            type(played[0])(first.model_copy(update={"turns": (turn,)}), [1], [1], [1], [0.0]),
            *played[1:],
        ]

    monkeypatch.setattr(rollout, "play", elsewhere)
    checks = regenerated(project, batches=1)
    assert set(outcomes(checks).values()) == {"passed"}
    assert "3 of 4 episodes" in checks[1].found and "1 differ where rounding decides" in checks[1].found
    monkeypatch.setattr(explained, "slack", lambda *a, **n: explained.Slack(1.5, 1, "token 1 of 6 is not it"))
    assert "failed" in outcomes(regenerated(project, batches=1)).values()


def test_the_first_thing_in_which_episodes_part_is_named(project: Project) -> None:
    episodes, _ = stored(project, "pre_eval")
    one = episodes[0]
    assert first_parting(one, one) is None
    n = len(one.turns)
    twice = one.model_copy(update={"turns": one.turns * 2})
    said = f"turn {n + 1}, number of turns: '{n}' is stored, '{2 * n}' was played"
    assert first_parting(one, twice) == said
