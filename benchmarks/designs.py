"""Tampering by design: forgeries that somebody thought out, each covered up by assay's own code, and which
level finds each.

A design changes the files of a package and whatever follows from the change that its forger thought of:
digests of models are made anew wherever they stand, chains too where it says so, reports and tables always,
all lists at the end. Pages are drawn anew where a design should pass V3, since no check of V3 reads them.
`due` is the level that was predicted before the first run.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from benchmarks.resealing import pretty, rederived, relocked, resealed, tar_of, write
from benchmarks.tamperings import Files, episode_in, path, put_rows, rows_of
from safetensors.numpy import load, save

from assay.core.errors import PackageError
from assay.core.storage.json import dumps, read_record
from assay.package.layout import ADAPTER, BASE
from assay.pipeline.project import Project
from assay.policy.digests import adapted_digest, digest_folder
from assay.statistics.report import Reports, report_on
from assay.training.log.step_chain import START, chain_of
from assay.verify.content.rendered import tables_again
from assay.verify.content.weights import read_safetensors, weights_digest
from assay.verify.unpacked import Unpacked

Forge = Callable[[Files], None]
WEIGHTS, CONFIG = f"{ADAPTER}/adapter_model.safetensors", f"{ADAPTER}/adapter_config.json"
LEVELS = ("V0", "V1", "V2", "V3", "V4", "V5")
PLAY, TRAIN, NOTHING = "V4", "V5", "none"


class Design(NamedTuple):
    """One forgery: its kind, what it changes, and the level that was predicted to find it."""

    kind: str
    forge: Forge
    due: str


def added(name: str, content: bytes = b"x = 1\n") -> Forge:
    """Add a file."""
    return lambda files: files.update({name: content})


def with_settings(name: str, **values: Any) -> Forge:
    """Change settings of a JSON file of the model."""

    def forge(files: Files) -> None:
        files[name] = pretty(json.loads(files[name]) | values)

    return forge


def both(*forges: Forge) -> Forge:
    """Do one after the other."""

    def forge(files: Files) -> None:
        for each in forges:
            each(files)

    return forge


def text(name: str, old: str, new: str, count: int = 1) -> Forge:
    """Replace by an expression in a text."""

    def forge(files: Files) -> None:
        found, n = re.subn(old, new, files[name].decode(), count=count)
        assert n, f"{old} is not in {name}"
        files[name] = found.encode()

    return forge


def weights(name: str, change: Callable[[dict[str, Any]], None], *, chain: bool = False) -> Forge:
    """Change the arrays of a model, and where `chain` says so, what the log and its chain say of them."""

    def forge(files: Files) -> None:
        arrays = {each: array.copy() for each, array in load(files[name]).items()}
        change(arrays)
        files[name] = save(arrays, metadata={"format": "pt"})
        if chain:
            chained_anew(files)

    return forge


def chained_anew(files: Files) -> None:
    """Let the log name the adapter's weights at the chosen step, and make the chain anew; validations name
    them as well."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.safetensors").write_bytes(files[WEIGHTS])
        made = weights_digest(read_safetensors(Path(folder, "a.safetensors"), "a"))
    facts, rows, chain = json.loads(files[path("train.json")]), rows_of(files, path("train_log.jsonl")), START
    old = rows[facts["chosen_step"] - 1]["digests"]["weights"]
    rows[facts["chosen_step"] - 1]["digests"]["weights"] = made
    for row in rows:
        chain = row["chain"] = chain_of(chain, row)
    files[path("train_log.jsonl")] = "".join(f"{dumps(row)}\n" for row in rows).encode()
    files[path("train.json")] = pretty(facts | {"chain": chain})
    files[path("validation.jsonl")] = files[path("validation.jsonl")].replace(old.encode(), made.encode())


def sides(side: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    """Change all A, all B, or both."""

    def forge(arrays: dict[str, Any]) -> None:
        for name in arrays:
            if f".lora_{side}." in name or side == "AB":
                arrays[name] = change(arrays[name]).astype(np.float32)

    return forge


def blind(arrays: dict[str, Any]) -> None:
    """Let every B read directions only that its A never writes: neither is 0, and their product is."""
    for name in [each for each in arrays if ".lora_A." in each]:
        a, b = arrays[name], arrays[name.replace("lora_A", "lora_B")]
        a[1::2], b[:, 0::2] = a[0::2], -b[:, 1::2]


def first_module(arrays: dict[str, Any]) -> None:
    """Let one module of many learn nothing."""
    arrays[min(each for each in arrays if ".lora_B." in each)][:] = 0


def noise(size: float, seed: int = 0) -> Callable[[Any], Any]:
    """Add a little to every number."""
    return lambda array: array + np.random.default_rng(seed).normal(scale=size, size=array.shape)


def rows(name: str, change: Callable[[list[Any]], None]) -> Forge:
    """Change the rows of a file of episodes."""

    def forge(files: Files) -> None:
        found = rows_of(files, path(name))
        change(found)
        put_rows(files, path(name), found)

    return forge


def turns(name: str, change: Callable[[Any], None], first: int | None = None) -> Forge:
    """Change turns of a file of episodes, all or the first so many."""

    def each(found: list[Any]) -> None:
        for turn in [turn for row in found for turn in episode_in(row)["turns"]][:first]:
            change(turn)

    return rows(name, each)


def other_prompt(turn: Any) -> None:
    """Let a turn have been written after something else."""
    turn["prompt_digest"] = f"{Random(turn['completion']).getrandbits(64):016x}"


def shuffled_draws(found: list[Any]) -> None:
    """Give each draw of an item the texts of another, with seed and number where they were."""
    for one, other in zip(found[::2], found[1::2], strict=True):
        places = [{name: row[name] for name in ("draw", "seed")} for row in (one, other)]
        mine, yours = dict(one), dict(other)
        one.update(yours | places[0])
        other.update(mine | places[1])


def taken(
    target: str,
    source: str,
    *,
    share: float = 1.0,
    named: bool = True,
    after: Callable[[list[Any]], None] | None = None,
) -> Forge:
    """Put the rows of one arm in the place of another's, with the other's policy where `named` says so."""

    def forge(files: Files) -> None:
        old, new = rows_of(files, path(f"{target}.jsonl")), rows_of(files, path(f"{source}.jsonl"))
        policy = old[0]["policy"]
        for k in range(round(share * len(old))):
            old[k] = new[k] | ({"policy": policy} if named else {})
        if after is not None:
            after(old)
        put_rows(files, path(f"{target}.jsonl"), old)

    return forge


def exchanged(one: str, other: str, *, named: bool) -> Forge:
    """Exchange the rows of two arms."""

    def forge(files: Files) -> None:
        ours, theirs, before = path(f"{one}.jsonl"), path(f"{other}.jsonl"), dict(files)
        taken(one, other, named=named)(files)
        taken(other, one, named=named)(before)
        files[theirs] = before[theirs]
        assert files[ours] != files[theirs]

    return forge


def validations_exchanged(*, named: bool) -> Forge:
    """Exchange what two validations showed."""

    def change(found: list[Any]) -> None:
        steps = sorted({row["step"] for row in found})
        one, other = ([row for row in found if row["step"] == step] for step in (steps[1], steps[-1]))
        for a, b in zip(one, other, strict=True):
            a["episode"], b["episode"] = b["episode"], a["episode"]
            if named:
                policies = a["episode"]["policy"], b["episode"]["policy"]
                b["episode"]["policy"], a["episode"]["policy"] = policies

    return rows("validation.jsonl", change)


def quieted(files: Files) -> None:
    """Say that no alarm rang, in the log of them and in what sums it up."""
    facts, n = json.loads(files[path("train.json")]), len(rows_of(files, path("train_log.jsonl")))
    quiet = dict.fromkeys(("value", "threshold", "baseline"))
    quiet |= {"rule": "non_finite", "level": "GREEN", "stop": False, "step": n, "first_step": 0}
    quiet |= {"item_ids": [], "message": f"No alarm in {n} steps."}
    put_rows(files, path("health.jsonl"), [quiet])
    facts["health"] |= {"worst": "GREEN", "rules": []}
    files[path("train.json")] = pretty(facts)


def without_rule(name: str, rule: str) -> Forge:
    """Leave an alarm out of the facts of a training."""

    def forge(files: Files) -> None:
        facts = json.loads(files[name])
        kept = [each for each in facts["health"]["rules"] if each["rule"] != rule]
        worst = max((each["level"] for each in kept), key=("GREEN", "AMBER", "RED").index, default="GREEN")
        facts["health"] |= {"rules": kept, "worst": worst}
        files[name] = pretty(facts)

    return forge


def planned_anew(files: Files) -> None:
    """Let the plan name the alarms of params.yaml as they are now, and train.json the sha256 of the plan."""
    from assay.core.config.reading import parse_params
    from assay.core.storage.yaml import read_yaml
    from assay.evidence.claim.plan import alarms_digest

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "params.yaml").write_bytes(files["params.yaml"])
        health = parse_params(read_yaml(Path(folder, "params.yaml"), fix="")).health
    files[path("claim_plan.json")] = pretty(
        json.loads(files[path("claim_plan.json")]) | {"alarms": alarms_digest(health)}
    )


def noted_anew(files: Files) -> None:
    """Let train.json note the plan as it is now."""
    sha256 = hashlib.sha256(files[path("claim_plan.json")]).hexdigest()
    files[path("train.json")] = pretty(json.loads(files[path("train.json")]) | {"claim_plan_sha256": sha256})


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
    other_rule=text("params.yaml", "checkpoint_rule: last", "checkpoint_rule: best_validation_reward"),
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


def with_digests(files: Files, before: Files, folder: Path) -> Files:
    """Return the files with the digests of base and policy made anew wherever they stand."""
    old = [json.loads(before[path("train.json")])[name] for name in ("base_digest", "policy_digest")]
    write({name: content for name, content in files.items() if name.startswith("models/")}, folder)
    base = digest_folder(folder / BASE)
    new = [base, adapted_digest(base, folder / ADAPTER)]
    found = dict(files)
    for name, content in files.items():
        if name.endswith((".json", ".jsonl")) and not name.startswith(("data/", "models/")):
            for one, other in zip(old, new, strict=True):
                content = content.replace(one.encode(), other.encode())
            found[name] = content
    return found


def rung_anew(files: Files, folder: Path) -> Files:
    """Return the files with the alarms that log, validations and thresholds, as they are now, raise."""
    from assay.core.records import HealthSummary
    from assay.pipeline.live_log import quiet
    from assay.verify.content.training import rung_again

    write(files, folder)
    package = Unpacked(folder)
    events, monitor = rung_again(package)
    events = events or [quiet(len(package.log))]
    facts = package.trained.model_copy(update={"health": HealthSummary.of(events, monitor.unmeasured)})
    found = files | {path("train.json"): pretty(facts.model_dump(mode="json"))}
    put_rows(found, path("health.jsonl"), [event.model_dump(mode="json") for event in events])
    return found


def reported_anew(package: Unpacked) -> bytes:
    """Return reports.json with the reports of all arms made anew from their episodes as they are now."""
    stored = read_record(package.results("reports.json"), Reports, fix="")
    again = {
        name: report_on(package.episodes(name), package.suite_of(name), old.policy_digest, old.decoding)
        for name, old in stored.arms.items()
    }
    return pretty(Reports(arms=again, baselines=stored.baselines).model_dump(mode="json"))


def forged(design: Design, before: Files, folder: Path) -> Files:
    """Return the files of a design, covered up as well as its forger can."""
    files = dict(before)
    design.forge(files)
    assert files != before
    files = with_digests(files, before, folder)
    if design.due in (TRAIN, NOTHING):
        files = rung_anew(files, folder)
    if design.due in (PLAY, TRAIN, NOTHING):
        files = rederived(files, folder)
    elif design.kind in ("tokens", "arms"):
        write(files, folder)
        package = Unpacked(folder)
        list(tables_again(package, folder.parent / "tables", nearly=False))
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

    from assay.verify.rerun.regenerated import regenerated
    from assay.verify.rerun.retrained import retrained

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
