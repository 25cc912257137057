"""`assay publish merge`: base and adapter as one plain model, compared with them before it is kept."""

from __future__ import annotations

import filecmp
import tempfile
from pathlib import Path

from assay.core.console import say
from assay.core.errors import PackageError
from assay.core.storage.json import write_json
from assay.pipeline.project import Project
from assay.stages.packing.merged import ADAPTER, merge_into
from assay.stages.packing.parity import MergeComparison, Parity

RECORD = "parity.json"


def run(root: Path, *, out: Path | None, run: Path | None) -> None:
    """Merge the adapter of a project and write the model with the record of its comparison, parity.json.

    Raises:
        PackageError: There is other content already, or the merged model does not follow its adapter.
    """
    project = Project.open(run or root)
    if run is not None:
        from assay.rollout.policy.base.adapter_files import read_adapter

        read_adapter(run / ADAPTER, run)  # somebody else's, maybe: nothing but a plain LoRA is opened
    folder = out or project.root / ".scratch/merged"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise _taken(folder, "something that is no folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder it will be, so that giving it its name is one step and needs no second copy.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as aside:
        fresh = Path(aside) / "merged"
        parity, measured = merge_into(project, fresh)
        write_json(fresh / RECORD, parity)
        if folder.exists() and any(folder.iterdir()):
            if not is_same(folder, fresh):
                raise _taken(folder, "other content")
            say(f"{folder} is this very model already")
        else:
            if folder.exists():
                folder.rmdir()
            fresh.rename(folder)
    for line in describe_merge(folder, parity, measured):
        say(line)


def describe_merge(folder: Path, parity: Parity, measured: MergeComparison) -> list[str]:
    """Return the lines to print."""
    megabytes = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
    lines = [f"{folder}: base and adapter as one model ({parity.policy_digest[:16]}…), {megabytes:.1f} MB"]
    places = f"{measured.positions} places of {measured.prompts} held-out prompts and completions"
    bound = f"bound {parity.max_logit_difference:g}"
    lines.append(f"logits at most {measured.difference:.3g} apart at {places} ({bound})")
    same = f"{measured.n_agreed} of {measured.n_tokens} the same ({measured.agreement:.2%}, bound"
    alone = f"each writing on by itself: {measured.free_agreement:.2%}"
    lines.append(f"greedy tokens: {same} {parity.min_greedy_agreement:.1%}); {alone}")
    if parity.base_was_4bit:
        lines.append("the base was 4-bit; the merged model is in the dtype that the 4-bit layers compute in")
    return lines


def _taken(folder: Path, found: str) -> PackageError:
    fix = "--out another folder, or remove this one"
    return PackageError("no folder, or this very model", found=found, where=str(folder), fix=fix)


def is_same(one: Path, other: Path) -> bool:
    """Return whether two folders hold the same files, byte for byte."""
    names = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) for folder in (one, other)]
    files = [name for name in names[1] if not (other / name).is_dir()]
    filecmp.clear_cache()
    return names[0] == names[1] and filecmp.cmpfiles(one, other, files, shallow=False)[0] == files
