"""Control tokens of the base at hand, in data that the fingerprint found nothing in: said, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.core.errors import DataError
from assay.pipeline import policies
from assay.pipeline.policies import tell_control_tokens
from assay.pipeline.project import Project
from assay.rollout.policy.base.tiny import END, USER, build_tokenizer
from assay.stages import fingerprint
from tests import own_data
from tests.own_data import jsonl, row

OWN = "\u00abturn\u00bb"  # no well-known model has it


def made(root: Path, **audit: str) -> Project:
    rows = [row(number) for number in range(5)] + [row(5, prompt=f"Who?{OWN} Ana 5, aged 25.")]
    own_data.write_data(root, {"train": jsonl(rows)})
    project = own_data.project(root, **audit)
    fingerprint.run(project)
    return project


@pytest.mark.parametrize("action", ["keep", "drop", "refuse"])
def test_a_token_that_only_this_base_knows_is_said_or_refused(
    tmp_path: Path, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(policies, "complain", said.append)
    project, tokenizer = made(tmp_path, control_token=action), build_tokenizer(["a"])
    tell_control_tokens(project.inputs("train"), tokenizer, "train")
    assert said == []
    tokenizer.add_special_tokens({"extra_special_tokens": [USER, OWN]})
    if action == "keep":
        tell_control_tokens(project.inputs("train"), tokenizer, "train")
        assert len(said) == 1 and END not in said[0]
        assert all(word in said[0] for word in (ascii(OWN), "1 item of 6", "'r5'"))
    else:
        with pytest.raises(DataError, match=f"control_token: {action}") as told:
            tell_control_tokens(project.inputs("train"), tokenizer, "train")
        assert "configs/task/" in told.value.fix and told.value.where.endswith("train.jsonl")
