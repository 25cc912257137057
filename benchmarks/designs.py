"""Tampering by design: forgeries that somebody thought out, each covered up by assay's own code, and which
level finds each.

A design changes the files of a package and whatever follows from the change that its forger thought of:
digests of models are made anew wherever they stand, chains too where it says so, reports and tables always,
all lists at the end. Pages are drawn anew where a design should pass V3, since no check of V3 reads them.
`due` is the level that was predicted before the first run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.forging import (
    WEIGHTS,
    Forge,
    added,
    blind,
    both,
    exchanged,
    first_module,
    noise,
    noted_anew,
    other_prompt,
    planned_anew,
    quieted,
    reported_anew,
    rows,
    rung_anew,
    shuffled_draws,
    sides,
    taken,
    text,
    turns,
    validations_exchanged,
    weights,
    with_digests,
    with_settings,
    without_rule,
)
from benchmarks.resealing import Files, put_rows, rederived, relocked, resealed, rows_of, tar_of, write

from assay.core.errors import PackageError
from assay.core.evidence_files import place_of as path
from assay.package.verification.content.rendered import tables_again
from assay.package.verification.unpacked import Unpacked
from assay.pipeline.project import Project
from assay.stages.packing.layout import ADAPTER, BASE

CONFIG = f"{ADAPTER}/adapter_config.json"
LEVELS = ("V0", "V1", "V2", "V3", "V4", "V5")
PLAY, TRAIN, NOTHING = "V4", "V5", "none"


class Design(NamedTuple):
    """One forgery: its kind, what it changes, and the level that was predicted to find it."""

    kind: str
    forge: Forge
    due: str


BASE_CONFIG, GENERATION, TOKENS, WORDS = (
    f"{BASE}/{name}.json" for name in ("config", "generation_config", "tokenizer_config", "tokenizer")
)
PICKLE = b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94."
MAPPED = {"AutoModelForCausalLM": "modeling_x.X"}
LOOSE = text("params.yaml", r"(?s)(kl:\n    amber: )[\d.]+(.*?red: )[\d.]+", r"\g<1>50.0\g<2>90.0")
ANSWERED = text(
    "params.yaml",
    r"acknowledged_alarms: \[\]",
    "acknowledged_alarms: [{rule: reward_vs_validation, reason: it was looked at}]",
)
DESIGNS: dict[str, Design] = {}


def _design(kind: str, due: str, **forges: Forge) -> None:
    for name, forge in forges.items():
        DESIGNS[f"{kind}: {name.replace('_', ' ')}"] = Design(kind, forge, due)


_design(
    "files",
    "V3",
    code_and_auto_map=both(added(f"{BASE}/modeling_x.py"), with_settings(BASE_CONFIG, auto_map=MAPPED)),
    code_in_base=added(f"{BASE}/modeling_x.py"),
    code_in_adapter=added(f"{ADAPTER}/layer.py"),
    library_in_base=added(f"{BASE}/kernel.so", b"\x7fELF"),
    pickle_in_base=added(f"{BASE}/pytorch_model.bin", PICKLE),
    pickle_in_adapter=added(f"{ADAPTER}/optimizer.pt", PICKLE),
    false_README_in_base=added(f"{BASE}/README.md", b"# 99 %\n"),
    false_README_in_adapter=added(f"{ADAPTER}/README.md", b"# 99 %\n"),
    README_in_models=added("models/README.md", b"# 99 %\n"),
    licence_in_base=added(f"{BASE}/LICENSE", b"none\n"),
    second_copy=added(f"{BASE}/original/params.json", b"{}\n"),
    generation_code=added(f"{BASE}/custom_generate/generate.py"),
    second_tokenizer=added(f"{BASE}/vocab.json", b"{}\n"),
    second_weights=added(f"{BASE}/model-00001-of-00002.safetensors", b""),
    adapter_as_pickle=added(f"{ADAPTER}/adapter_model.bin", PICKLE),
    code_in_data=added("data/collider/load.py"),
    code_at_the_top=added("conftest.py"),
    more_results=added("evidence/results/control/more.json", b"{}\n"),
)
_design(
    "files",
    "V0",
    hidden_code_in_base=added(f"{BASE}/.modeling.py"),
    hidden_folder_in_data=added("data/collider/.cache/x.json"),
    hidden_results=added("evidence/results/.notes.md"),
    hidden_at_the_top=added(".env"),
)
_design(
    "adapter settings",
    "V3",
    use_rslora=with_settings(CONFIG, use_rslora=True),
    use_dora=with_settings(CONFIG, use_dora=True),
    alpha_doubled=with_settings(CONFIG, lora_alpha=64),
    rank_pattern=with_settings(CONFIG, rank_pattern={"q_proj": 8}),
    alpha_pattern=with_settings(CONFIG, alpha_pattern={"q_proj": 64}),
    fan_in_fan_out=with_settings(CONFIG, fan_in_fan_out=True),
    bias=with_settings(CONFIG, bias="all"),
    modules_to_save=with_settings(CONFIG, modules_to_save=["lm_head"]),
    layer_replication=with_settings(CONFIG, layer_replication=[[0, 2], [1, 2]]),
    init_lora_weights=with_settings(CONFIG, init_lora_weights="pissa"),
    target_expression=with_settings(CONFIG, target_modules=".*"),
    exclude_modules=with_settings(CONFIG, exclude_modules=["q_proj"]),
    layers_to_transform=with_settings(CONFIG, layers_to_transform=[0]),
    code_mapped=with_settings(CONFIG, auto_mapping={"parent_library": "modeling_x"}),
    unknown_key=with_settings(CONFIG, boost=2),
    another_type=with_settings(CONFIG, peft_type="LOHA"),
    another_base=with_settings(CONFIG, base_model_name_or_path="Qwen/Qwen3-4B"),
)
_design(
    "base settings",
    "V3",
    auto_map=with_settings(BASE_CONFIG, auto_map=MAPPED),
    remote_code=with_settings(BASE_CONFIG, trust_remote_code=True),
    auto_map_of_tokenizer=with_settings(TOKENS, auto_map={"AutoTokenizer": ["tokenization_x.X", None]}),
    auto_map_of_generation=with_settings(GENERATION, auto_map=MAPPED),
    nested_auto_map=with_settings(BASE_CONFIG, text_config={"auto_map": MAPPED}),
    quantised=with_settings(BASE_CONFIG, quantization_config={"quant_method": "x"}),
    norm=with_settings(BASE_CONFIG, rms_norm_eps=1e-3),
    rope=with_settings(BASE_CONFIG, rope_parameters={"rope_theta": 1e6, "rope_type": "default"}),
    untied=with_settings(BASE_CONFIG, tie_word_embeddings=False),
    heads=with_settings(BASE_CONFIG, num_attention_heads=2, head_dim=32),
    penalty=with_settings(GENERATION, repetition_penalty=1.3),
    more_ends=with_settings(GENERATION, eos_token_id=[2, 7]),
    suppressed=with_settings(GENERATION, suppress_tokens=[9]),
    words_exchanged=text(WORDS, r'"s": (\d+)', r'"s": \1.0'),
    lower_case=with_settings(WORDS, normalizer={"type": "Lowercase"}),
    template=text(f"{BASE}/chat_template.jinja", r"\A", "Be right. "),
    second_template=with_settings(TOKENS, chat_template="{{ messages }}"),
    padding=with_settings(TOKENS, padding_side="right"),
)
_design(
    "weights",
    "V3",
    zeroed=weights(WEIGHTS, sides("AB", np.zeros_like)),
    B_zeroed=weights(WEIGHTS, sides("B", np.zeros_like)),
    A_zeroed=weights(WEIGHTS, sides("A", np.zeros_like)),
    equal_to_the_base=weights(WEIGHTS, blind),
    ten_times=weights(WEIGHTS, sides("B", lambda b: 10 * b)),
    negated=weights(WEIGHTS, sides("B", lambda b: -b)),
    of_another_training=weights(WEIGHTS, sides("AB", noise(1e-2))),
    zeroed_and_chained=weights(WEIGHTS, sides("AB", np.zeros_like), chain=True),
    B_zeroed_and_chained=weights(WEIGHTS, sides("B", np.zeros_like), chain=True),
    equal_to_the_base_and_chained=weights(WEIGHTS, blind, chain=True),
    one_module_zeroed_and_chained=weights(WEIGHTS, first_module, chain=True),
    a_hundred_times_and_chained=weights(WEIGHTS, sides("B", lambda b: 100 * b), chain=True),
    more_in_the_base=weights(
        f"{BASE}/model.safetensors", lambda arrays: arrays.update(lm_head=np.ones((2, 2), np.float32))
    ),
)
_design(
    "tokens",
    "V3",
    one_more=turns("post_eval.jsonl", lambda t: t.update(n_tokens=t["n_tokens"] + 1), 1),
    one_less_everywhere=turns("post_eval.jsonl", lambda t: t.update(n_tokens=max(1, t["n_tokens"] - 1))),
    more_before=turns("pre_eval.jsonl", lambda t: t.update(n_tokens=t["n_tokens"] + 1)),
    called_cut=turns("pre_eval.jsonl", lambda t: t.update(truncated=True, n_tokens=8), 3),
    called_cut_in_place=turns("pre_eval_greedy.jsonl", lambda t: t.update(truncated=True)),
    prompts_after_the_first=turns("post_eval.jsonl", other_prompt, 2),
    opening_everywhere=turns("control_eval.jsonl", lambda t: t.update(prompt_digest="0" * 16)),
    text_cut_short=rows(
        "post_eval.jsonl", lambda found: [row.update(prompt_chars_cut=5) for row in found] and None
    ),
    in_validations=turns("validation.jsonl", lambda t: t.update(n_tokens=t["n_tokens"] + 1), 5),
)
_design(
    "arms",
    "V3",
    control_is_the_base=taken("control_eval", "pre_eval"),
    control_is_the_base_with_draws_moved=taken("control_eval", "pre_eval", after=shuffled_draws),
    control_is_the_base_as_it_was=taken("control_eval", "pre_eval", named=False),
    after_is_before=taken("post_eval", "pre_eval"),
    control_is_after=taken("control_eval", "post_eval"),
    exchanged=exchanged("pre_eval", "post_eval", named=False),
    greedy_exchanged=exchanged("pre_eval_greedy", "post_eval_greedy", named=False),
    control_and_base_exchanged=exchanged("control_eval", "pre_eval", named=False),
    some_of_before=taken("pre_eval", "post_eval", share=0.3, named=False),
    validations_exchanged=validations_exchanged(named=False),
    secondary_after_is_before=taken("post_eval_secondary/traps", "pre_eval_secondary/traps"),
    secondary_exchanged=exchanged(
        "pre_eval_secondary/heldout_ood", "post_eval_secondary/heldout_ood", named=False
    ),
)
_design(
    "alarms",
    "V3",
    loosened=LOOSE,
    loosened_and_quiet=both(LOOSE, quieted),
    loosened_and_planned=both(LOOSE, quieted, planned_anew),
    emptied=lambda files: files.update({path("health.jsonl"): b""}),
    quieted=quieted,
    one_line_less=lambda files: put_rows(
        files, path("health.jsonl"), rows_of(files, path("health.jsonl"))[1:]
    ),
    longer_baseline=text("params.yaml", r"baseline_steps: \d+", "baseline_steps: 4"),
    other_rule=text("params.yaml", "checkpoint_rule: best_validation_reward", "checkpoint_rule: last"),
)
_design(
    "everything but the model",
    PLAY,
    before_and_after_exchanged=exchanged("pre_eval", "post_eval", named=True),
    better_rows_from_before=taken("post_eval", "pre_eval", share=0.4),
    adapter_a_little_off=weights(WEIGHTS, sides("B", noise(3e-2)), chain=True),
    base_a_little_off=weights(f"{BASE}/model.safetensors", sides("AB", noise(2e-2))),
    scale_in_settings_too=both(
        with_settings(CONFIG, lora_alpha=64), text("params.yaml", "alpha: 32", "alpha: 64")
    ),
)
_design(
    "everything but the training",
    TRAIN,
    control_mostly_the_base=taken("control_eval", "pre_eval", share=0.8),
    validations_exchanged=both(validations_exchanged(named=True), ANSWERED),
)
_design(
    "nothing to compare with",
    NOTHING,
    alarms_loosened_everywhere=both(
        LOOSE, planned_anew, noted_anew, without_rule(path("control.json"), "kl")
    ),
)


def forged(design: Design, before: Files, folder: Path) -> Files:
    """Return the files of a design, covered up as well as its forger can."""
    files = dict(before)
    design.forge(files)
    if files == before:
        raise PackageError(
            "a package that the design changes, such as of a training in which an alarm rang",
            found="one that it leaves as it is",
            where=design.kind,
            fix="train it with another train.learning_rate",
        )
    files = with_digests(files, before, folder)
    if design.due in (TRAIN, NOTHING):
        files = rung_anew(files, folder)
    if design.due in (PLAY, TRAIN, NOTHING):
        files = rederived(files, folder)
    elif design.kind in ("tokens", "arms"):
        write(files, folder)
        package = Unpacked(folder)
        list(tables_again(package, folder.parent / "tables"))
        made = folder.parent / "tables"
        files |= {
            each.relative_to(made).as_posix(): each.read_bytes() for each in made.rglob("*") if each.is_file()
        }
        files[path("reports.json")] = reported_anew(package)
    touched = {name for name in files if files[name] != before.get(name)}
    return resealed(relocked(files, touched & {"README.md"}, folder, settings=True))


def tried(given: tuple[str, Files]) -> dict[str, Any]:
    """Forge one design and return which level finds it first: V0 to V3, then V4 on every row, then V5."""
    from benchmarks.tamper import first_failure

    from assay.package.verification.rerun.regenerated import regenerated
    from assay.package.verification.rerun.retrained import retrained

    design = DESIGNS[given[0]]
    told = {"design": given[0], "kind": design.kind, "due": design.due, "level": NOTHING}
    told |= {"check": None, "found": None}
    with tempfile.TemporaryDirectory(prefix="assay-design-") as scratch:
        folder = Path(scratch, "work")
        files = forged(design, given[1], folder)
        try:
            package = tar_of(files, Path(scratch))
        except PackageError:  # assay's own code packs no such name, so it is handed on as a folder
            package = Path(scratch, "package")
            write(files, package)
        found = first_failure(package)
        if found is None and design.due != "V3":
            write(files, folder)
            project = Project.open(folder)
            checks = regenerated(project, batches=10**6, key="designs")
            found = next((each for each in checks if each.outcome == "failed"), None)
            if found is None and design.due != PLAY:
                found = next((each for each in retrained(project) if each.outcome == "failed"), None)
    if found is not None:
        told |= {"level": found.level, "check": found.name, "found": found.found[:200]}
    return told
