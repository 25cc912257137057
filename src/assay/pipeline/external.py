"""What takes the place of a training that was done elsewhere: its adapter or its whole model is looked at and
taken as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.config.places import setting
from assay.core.config.training import ExternalTraining
from assay.core.console import complain, say
from assay.core.errors import DataError, PolicyError
from assay.core.evidence_files import LOGS, folder_of, place_of
from assay.core.storage.files import read_bytes, read_text, sha256_bytes, write_bytes, write_folder
from assay.core.storage.json import loads, write_json
from assay.pipeline.inputs import Inputs
from assay.pipeline.policies import ADAPTER, BASE
from assay.rollout.dataset.external import ExternalFacts, WholeFacts
from assay.rollout.policy.base.pretrained import LOCAL, POINTER, PinnedSource, locate, pointer_text
from assay.rollout.policy.digests import adapted_digest, digest_folder, listing_digest

if TYPE_CHECKING:
    from assay.rollout.policy.base.adapter_files import AdapterFiles
    from assay.rollout.policy.base.whole_model import WholeModel

FOLDER, PLAN = setting("train.folder"), "claim_plan.json"
CONFIGS = ("adapter_config.json", "config.json")  # of an adapter, of a whole model
TEMPLATE, WORDS = "chat_template.jinja", "tokenizer.json"
WORDS_FIX = "remove it: the adapter is played with the base's"
DEEPEST = 4  # folders below the one that was named, in which others are looked for
SHOWN = 256  # train items whose prompts are written by both templates


def take(root: Path, inputs: Inputs, brought: ExternalTraining) -> None:
    """Write models/adapter and train.json from what the settings name; whatever a training would tell stays
    unwritten. Of a whole model models/adapter is a pointer: it is not copied.

    Args:
        root: Of the project.
        inputs: With the train items, by whose prompts a whole model is compared with the base.
        brought: What the settings name.

    Raises:
        DataError: A file is missing, no regular one, a link that leaves the folder, or another than the
            settings say.
        PolicyError: It is neither a plain LoRA adapter of this base nor a whole model that can be loaded.
    """
    plan = sha256_bytes(read_bytes(root / place_of(PLAN), fix="./run dvc repro fingerprint"))
    base = locate(root / BASE)
    whole, of_base = _take_files(root, inputs, brought, base), digest_folder(base)
    policy = brought.sha256 if whole else adapted_digest(of_base, root / ADAPTER)
    for each in (folder_of("train"), f"{LOGS}/train"):
        shutil.rmtree(root / each, ignore_errors=True)
    facts = ExternalFacts(
        kind="external",
        how=brought.how,
        sha256=brought.sha256,
        claim_plan_sha256=plan,
        base_digest=of_base,
        policy_digest=policy,
        whole=whole,
    )
    write_json(root / place_of("train.json"), facts)
    # A log without a step: DVC wants the folder, and a package has no empty one.
    write_bytes(root / place_of("train_log.jsonl"), b"")
    say(f"train: took {brought.folder}, policy {policy[:12]}; how it was trained is not known")
    if not brought.data:
        complain("train.data names no file: whether it was trained on held-out records is not known")


def _take_files(root: Path, inputs: Inputs, brought: ExternalTraining, base: Path) -> WholeFacts | None:
    """Write models/adapter from a folder; return what is known of a whole model, None of an adapter."""
    folder = _folder(root, brought)
    whole: WholeFacts | None = None
    if _is_whole(folder, FOLDER):
        model = _whole(folder, brought, base)
        whole = beside_base(inputs, model, folder, base)
        source = PinnedSource(folder, folder.name, LOCAL, model.digest)
        files = {POINTER: pointer_text(source).encode()}
    else:
        files = _adapter(folder, brought, base).named()
    if Path(brought.folder).is_absolute():
        complain(ABSOLUTE)
    write_folder(root / ADAPTER, files, check=lambda _: None)
    return whole


ABSOLUTE = (
    "train.folder, or the base that the adapter names, is an absolute path, and both are part of the package,"
    " which is refused where that path lies below your home. Fix: write it relative to the project"
)


def brought_digest(folder: Path) -> tuple[str, str]:
    """Return what a folder holds (an adapter, or a model with its size) and its train.sha256, after it was
    looked at as the stage does.

    Raises:
        DataError: A file is missing, no regular one, or a link that leaves the folder.
        PolicyError: It is no plain LoRA adapter and no whole model that can be loaded.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise DataError("a folder", found="none", where=str(folder), fix="correct its name")
    if _is_whole(folder, "FOLDER"):
        from assay.rollout.policy.base.whole_model import look_at

        found = look_at(folder)
        return f"a whole model, {found.architecture} with {found.parameters:,} parameters", found.digest
    from assay.rollout.policy.base.adapter_files import read_adapter

    return "a LoRA adapter", listing_digest(read_adapter(folder, folder).named())


def _folder(root: Path, brought: ExternalTraining) -> Path:
    folder = (root / Path(brought.folder).expanduser()).absolute()
    if not folder.is_dir():
        fix = "correct train.folder; it is relative to the project"
        raise DataError(
            "a folder with an adapter or a model", found="none", where=f"{FOLDER}, {brought.folder}", fix=fix
        )
    return folder


def _is_whole(folder: Path, where: str) -> bool:
    """Return whether a folder holds a whole model and not an adapter.

    Raises:
        PolicyError: It holds neither; names the folders in it that do.
    """
    for name in CONFIGS:
        if (folder / name).exists():
            return name == CONFIGS[1]
    found = (
        path
        for name in CONFIGS
        for deep in range(1, DEEPEST + 1)
        for path in folder.glob(f"{'*/' * deep}{name}")
    )
    below = sorted({path.parent.relative_to(folder).as_posix() for path in found})
    raise PolicyError(
        f"a LoRA adapter ({CONFIGS[0]}) or a whole model ({CONFIGS[1]})",
        found=f"neither; in it {', '.join(below[:8])}" if below else "neither",
        where=f"{where}, {folder.name}",
        fix="name one of these" if below else "name the folder into which it was saved with save_pretrained",
    )


def _refuse_others(found: str, brought: ExternalTraining) -> None:
    if found != brought.sha256:
        fix = f"bring the files that were meant; if these are, set train.sha256: {found}"
        raise DataError(
            f"files of train.sha256 {brought.sha256[:16]}…",
            found=f"{found[:16]}…",
            where=brought.folder,
            fix=fix,
        )


def _adapter(folder: Path, brought: ExternalTraining, base: Path) -> AdapterFiles:
    from transformers import AutoConfig

    from assay.rollout.policy.base.adapter_files import check_fits, read_adapter

    files = read_adapter(folder, folder)
    _refuse_others(listing_digest(files.named()), brought)
    config = AutoConfig.from_pretrained(base, local_files_only=True, trust_remote_code=False)
    check_fits(_Outlined(config), files, brought.folder)
    if (folder / TEMPLATE).is_file() and _template(folder) != _template(base):
        complain(
            f"{TEMPLATE} beside the adapter is not the base's, which is what it is played with: if it was"
            " trained with its own, put that into a copy of the base, for both arms"
        )
    refuse_other_words(folder, base, brought.folder)
    told = files.base_name
    if told is not None and Path(told).is_absolute() and not Path(brought.folder).is_absolute():
        complain(ABSOLUTE)
    return files


def refuse_other_words(folder: Path, base: Path, where: str) -> None:
    """Refuse an adapter that was trained with other tokens than the base has: it would read and write what it
    never learned. Trainers save the tokenizer beside it; words that it has beyond the base's are told.

    Raises:
        PolicyError: Words of the base are other tokens there, or none; names some.
    """
    theirs, ours = (_words(each) for each in (folder, base))
    if not theirs or not ours:
        return
    moved = [f"{word!a} as {theirs.get(word)}" for word, at in ours.items() if theirs.get(word) != at]
    if moved:
        raise PolicyError(
            f"the base's {len(ours):,} words as the same tokens in {WORDS}, beside the adapter",
            found=f"{len(moved):,} others, such as {', '.join(moved[:3])}",
            where=where,
            fix="bring an adapter of this base, or name as base.model the one that it was trained on",
        )
    if more := sorted(theirs.keys() - ours.keys()):
        complain(
            f"{WORDS} beside the adapter has words that the base has not ({', '.join(map(ascii, more[:3]))}):"
            " it is played without them"
        )


def _words(folder: Path) -> dict[str, int]:
    """Return the vocabulary of a folder's tokenizer, {} where it cannot be told."""
    if not (folder / WORDS).is_file():
        return {}
    told = loads(read_text(folder / WORDS, fix=WORDS_FIX), where=str(folder / WORDS), fix=WORDS_FIX)
    try:
        return {**told["model"]["vocab"], **{each["content"]: each["id"] for each in told["added_tokens"]}}
    except (KeyError, TypeError):
        return {}


def _template(folder: Path) -> bytes | None:
    found = folder / TEMPLATE
    return read_bytes(found, fix="put the file there").strip() if found.is_file() else None


class _Outlined:
    """A base of which nothing but the configuration is known."""

    def __init__(self, config: Any) -> None:
        self.config = config


def _whole(folder: Path, brought: ExternalTraining, base: Path) -> WholeModel:
    from assay.rollout.policy.base.whole_model import look_at, same_weights

    model = look_at(folder)
    _refuse_others(model.digest, brought)
    if same_weights(folder, base):
        raise PolicyError(
            "a model that was trained",
            found="the base itself: each of its weights is the base's, to the last bit",
            where=brought.folder,
            fix="merge the adapter before the model is saved, or bring the checkpoint that was meant",
        )
    return model


def beside_base(inputs: Inputs, model: WholeModel, folder: Path, base: Path) -> WholeFacts:
    """Return in what the model is another than the base, other than its weights.

    Raises:
        PolicyError: A tokenizer cannot be read, or a chat template cannot be served.
    """
    from assay.rollout.policy.base.whole_model import outline
    from assay.rollout.policy.model import open_tokenizer
    from assay.rollout.policy.renderer import Dialogue

    template = inputs.params.base.template
    ours, theirs = (open_tokenizer(each, template) for each in (base, folder))
    dialogues = [Dialogue(each, template) for each in (ours, theirs)]
    asked = [inputs.task.start(item, 0)[0] for item in inputs.train[:SHOWN]]
    texts = [[each.render(messages, open_turn=True) for messages in asked] for each in dialogues]
    others = sum(one != other for one, other in zip(*texts, strict=True))
    read = [each(texts[0], add_special_tokens=False)["input_ids"] for each in (ours, theirs)]
    architecture, parameters = outline(base)[:2]
    return WholeFacts(
        architecture=model.architecture,
        parameters=model.parameters,
        base_architecture=architecture,
        base_parameters=parameters,
        other_tokenizer=ours.get_vocab() != theirs.get_vocab() or read[0] != read[1],
        n_prompts=len(asked),
        n_other_prompts=others,
    )
