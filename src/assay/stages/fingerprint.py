"""Stage 1: say exactly what the data are, refuse what they must not be, and write down what will be claimed."""

from __future__ import annotations

from assay.console import say
from assay.dataset.checksums import check_sums, parse_sums
from assay.dataset.fingerprint import audit, enforce, fingerprint
from assay.errors import DataError
from assay.evaluation.suite import choose
from assay.evidence.plan import ClaimPlan
from assay.stages.inputs import rows, task_of
from assay.stages.project import RESULTS, Project
from assay.storage.files import read_bytes, read_text, sha256_bytes
from assay.storage.json import write_json

READS = ("${dataset.root}",)
WRITES = (f"{RESULTS}/fingerprint.json", f"{RESULTS}/audit.json", f"{RESULTS}/claim_plan.json")


def run(project: Project) -> None:
    """Verify the data against their checksums, fingerprint and audit them, fix the claim."""
    params = project.params
    root = params.dataset.root
    fix = f"restore the data: git checkout -- {root}"
    sums = parse_sums(read_text(project.data("SHA256SUMS"), fix=fix), f"{root}/SHA256SUMS")
    contents = {path.name: read_bytes(path, fix=fix) for path in sorted(project.data("").glob("*.jsonl"))}
    check_sums({name: sha256_bytes(content) for name, content in contents.items()}, sums, root)
    task = task_of(project)
    files = {
        name.removesuffix(".jsonl"): (sums[name], rows(content, project.data(name), fix)) for name, content in contents.items()
    }
    for split in ("train", "validation", "heldout"):
        if not files.get(split, ("", []))[1]:
            raise DataError(f"records in {split}.jsonl", found="none", where=root, fix=fix)
    found = fingerprint(task, files)
    items = {split: [task.item(row) for row in split_rows] for split, (_, split_rows) in files.items()}
    checked = audit(items)
    enforce(found, checked, params.dataset.expected_sha256, root)
    chosen = params.evaluation
    suite = choose(items["heldout"], chosen.items, split="heldout", draws=chosen.draws, seed=chosen.seed)
    plan = ClaimPlan(
        primary=params.claim.primary, direction="higher", smallest_effect_points=params.claim.smallest_effect_points,
        draws=chosen.draws, suite_digest=suite.digest, checkpoint_rule=params.claim.checkpoint_rule,
        alpha=params.claim.alpha, cluster_name=task.cluster_name, secondary=("mean_reward",),
        guardrails={"parsed_rate": params.claim.parsed_rate_margin},
    )  # fmt: skip
    write_json(project.results("fingerprint.json"), found)
    write_json(project.results("audit.json"), checked)
    write_json(project.results("claim_plan.json"), plan)
    counts = ", ".join(f"{name} {split.n_records}" for name, split in found.splits.items())
    say(f"data {found.dataset_sha256[:12]}: {counts}; no duplicates, no leaks between splits")
