"""Write the records of the task `chain_sum` by reasoning-gym: `python tasks/chain_sum/make_data.py`."""

from __future__ import annotations

import json
from pathlib import Path

from assay.core.storage.yaml import read_yaml
from assay.rollout.tasks.own.adapters.reasoning_gym import main

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    asked = read_yaml(ROOT / "configs/task/chain_sum.yaml", fix="git checkout configs")["task"]["options"]
    folder = str(ROOT / "data" / asked["dataset"])
    raise SystemExit(main([asked["dataset"], folder, "--config", json.dumps(asked["config"])]))
