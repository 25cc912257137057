"""Models behind two `transformers serve` are base and tuned policy of the stages, over several turns."""

from __future__ import annotations

import json
from pathlib import Path

from assay.core.records import Episode
from assay.core.storage.json import read_records
from assay.pipeline.project import Project
from assay.stages.render_evidence.claim_at import claim_at
from tests.stages.served_run import BEFORE_PACKAGE, run_stages, served_settings, write_project
from tests.tools.served.real_server import MARKS, served, write_model

pytestmark = MARKS


def test_both_models_play_and_every_token_that_a_server_counts_is_in_an_episode(tmp_path: Path) -> None:
    for seed, name in enumerate(("my-base", "my-tuned")):
        write_model(tmp_path / name, seed=seed)
    with served("my-base", tmp_path) as base, served("my-tuned", tmp_path) as tuned:
        values = served_settings(f"{base}/v1", f"{tuned}/v1", task="collider", retries=8, timeout=120.0)
        values["generation"]["surface"] = "compact"
        values["dataset"]["secondary"] = []
        values["evaluation"] |= {"items": 3, "rivals": {"few_shot": 1, "best_of_n": 0, "constrained": False}}
        root = write_project(tmp_path / "run", values, data="data/collider")
        run_stages(root, [stage for stage in BEFORE_PACKAGE if stage != "render_evidence"])
    project = Project.open(root)
    claim = claim_at(project).claim
    assert claim.n_items == 3 and claim.before_policy != claim.after_policy
    for stage, named in (("pre_eval", {"my-base"}), ("post_eval", {"my-base", "my-tuned"})):
        arms = json.loads(project.results(f"{stage}_served.json").read_text())["arms"]
        told = {name.rpartition("/")[2].split("@")[0] for arm in arms.values() for name in arm["answered_as"]}
        assert told == named
        for name, arm in arms.items():
            episodes = read_records(project.results(f"{name}.jsonl"), Episode, fix="")
            assert arm["completion_tokens"] == sum(each.n_tokens for each in episodes) > 0
            assert max(len(each.turns) for each in episodes) > 1
