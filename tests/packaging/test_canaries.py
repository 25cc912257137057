"""Planted secrets: each is found where it was put, or is not in the package."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path

import pytest

from assay.core import evidence_files
from assay.core.errors import PackageError
from assay.pipeline.heldout_ledger import NOTHING
from assay.pipeline.project import Project
from assay.stages import package
from assay.stages.package import READS
from assay.stages.packing.archive import write_tar
from assay.stages.packing.pages import BEFORE
from assay.stages.packing.parity import MergeComparison, Parity
from assay.stages.packing.secrets.known import KnownSecret, MachineFacts, known_secrets, this_machine
from assay.stages.packing.secrets.search import cleared, scan
from tests.packaging.canaries import (
    CHANNELS,
    HOST,
    USER,
    WRITTEN,
    anywhere,
    machine_at,
    members_of,
    secrets_of_a_machine,
    tokens,
)

ROOT = Path(__file__).resolve().parents[2]
Pack = Callable[[Path], Path]  # a project → the tar it made of it; raises PackageError instead


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> MachineFacts:
    folder = tmp_path_factory.mktemp("machine")
    know = secrets_of_a_machine()
    read = this_machine(folder / "project", machine_at(folder / "home", folder / "project"))
    argv = ["python", "-m", "assay", "package", "--token", know["argv option"], f"--run={know['argv value']}"]
    return MachineFacts(
        environment=read.environment,
        argv=argv,
        home=f"/home/{USER}",
        users=[USER],
        hosts=[HOST, HOST.split(".")[0]],
        folders={},
        netrc=read.netrc,
        token_files=read.token_files,
        texts=read.texts,
    )


def planted(secret: str, how: str) -> dict[str, bytes]:
    """Return one file of each channel, each with the secret written like this."""
    text = WRITTEN[how](secret)
    try:
        return {file: put(text) for file, put in CHANNELS.items()}
    except UnicodeEncodeError:  # a PNG's text is Latin-1
        return {file: put(WRITTEN[how](secret.encode().decode("latin-1"))) for file, put in CHANNELS.items()}


def missed(secrets: Mapping[str, str], known: Sequence[KnownSecret]) -> tuple[Counter[str], list[str]]:
    """Plant every secret in every channel in every spelling; return how many were found, by spelling, and
    what was not."""
    found: Counter[str] = Counter()
    lost = []
    for what, secret in secrets.items():
        for how in WRITTEN:
            members = planted(secret, how)
            caught = {each.file for each in scan(members, known, [])}
            found[how] += len(caught)
            lost += [f"{what}, {how}: {file}" for file in members if file not in caught]
    return found, lost


def test_there_are_more_than_forty_canaries() -> None:
    assert len(tokens()) + len(secrets_of_a_machine()) >= 40


def test_nothing_is_found_in_the_channels_themselves(machine: MachineFacts) -> None:
    assert scan(planted("nothing to see", "plain"), known_secrets(machine).secrets, []) == []


def test_a_token_is_known_by_its_shape_in_every_channel_and_spelling() -> None:
    found, lost = missed(tokens(), ())
    assert lost == []
    assert set(found.values()) == {len(tokens()) * len(CHANNELS)}


def test_what_the_machine_knows_is_found_in_every_channel_and_spelling(machine: MachineFacts) -> None:
    known = known_secrets(machine)
    know = secrets_of_a_machine()
    assert set(know.values()) <= {each.value for each in known.secrets}
    found, lost = missed(know, known.secrets)
    assert lost == []
    assert set(found.values()) == {len(know) * len(CHANNELS)}


def refused_or_absent(pack: Pack, project: Path, file: str, secret: str) -> str:
    """Pack a project with a planted secret: it is refused with the file named, or the secret is nowhere in
    the tar."""
    try:
        tar = pack(project)
    except PackageError as error:
        assert "no secrets" in str(error) and file in str(error), (
            f"{file} is not named as what holds a secret"
        )
        assert secret not in str(error), "the secret is shown"
        return "refused"
    assert anywhere(members_of(tar.read_bytes()), secret) == []
    return "absent"


def packed_by(known: Sequence[KnownSecret]) -> Pack:
    """Return what packs every file below a folder but evidence/observed, as the stage does: scanned first,
    then written."""

    def pack(project: Path) -> Path:
        files = [
            path for path in sorted(project.rglob("*")) if path.is_file() and "observed" not in path.parts
        ]
        members = {path.relative_to(project).as_posix(): path.read_bytes() for path in files}
        cleared(members, known, [])
        write_tar(project.parent / "out.tar", members, root="assay-package")
        return project.parent / "out.tar"

    return pack


def test_a_planted_secret_is_refused_or_is_not_in_the_archive(machine: MachineFacts, tmp_path: Path) -> None:
    pack, outcomes = packed_by(known_secrets(machine).secrets), Counter[str]()
    secrets = {**tokens(), **secrets_of_a_machine()}
    # Each canary in one channel and one spelling, round and round; what is observed is no part of a package.
    files, spellings = [*CHANNELS, "evidence/observed/run_log.jsonl"], list(WRITTEN)
    for n, secret in enumerate(secrets.values()):
        project, file, how = tmp_path / str(n), files[n % len(files)], spellings[n % len(spellings)]
        content = planted(secret, how).get(file, WRITTEN[how](secret).encode())
        for name, put in {**CHANNELS, file: lambda text, content=content: content}.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_bytes(put("nothing to see"))
        outcomes[refused_or_absent(pack, project, file, secret)] += 1
    absent = len(range(len(files) - 1, len(secrets), len(files)))
    assert outcomes == {"refused": len(secrets) - absent, "absent": absent}


def _shortened(name: str, content: bytes) -> bytes:
    """Return three lines of a file of rows, packed or not, and a page without its pictures; any other as it
    is."""
    if name.endswith(".jsonl.gz"):
        return gzip.compress(_shortened(name.removesuffix(".gz"), gzip.decompress(content)), mtime=0)
    if name.endswith(".html"):
        return re.sub(rb"(;base64,)[A-Za-z0-9+/=]+", rb"\1", content)
    return b"".join(content.splitlines(True)[:3]) if name.endswith(".jsonl") else content


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project that the stage packs: the committed run, its long files cut to three lines, under a
    made-up model."""
    root = tmp_path_factory.mktemp("small") / "project"
    for entry in (
        entry.replace("${dataset.root}", "data/collider") for entry in (*READS, "evidence/observed")
    ):
        unkept = evidence_files.FILES.get(entry, {}) if "/logs/" in entry else {}  # git has them not
        own = [ROOT / entry / name for name in unkept]
        for path in own or (sorted((ROOT / entry).rglob("*")) if (ROOT / entry).is_dir() else [ROOT / entry]):
            name = path.relative_to(ROOT)
            if name.parts[0] in ("models", "src") or path.suffix == ".svg" or path.is_dir():
                continue
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            content = (
                path.read_bytes() if path.exists() else b""
            )  # an output that is newer than the committed run
            (root / name).write_bytes(_shortened(path.name, content))
    for code in ("src/assay", "tasks/collider"):  # what dvc.yaml names as code
        (root / code).mkdir(parents=True)
    weights = CHANNELS["models/adapter/adapter_model.safetensors"]("nothing to see")
    made = {
        "base/config.json": b"{}",
        "adapter/adapter_config.json": b"{}",
        "adapter/adapter_model.safetensors": weights,
    }
    for file, content in made.items():
        (root / "models" / file).parent.mkdir(parents=True, exist_ok=True)
        (root / "models" / file).write_bytes(content)
    # What the lock says is another test's question, and long to read.
    stages = "".join(f"  {name}:\n    cmd: assay {name}\n" for name in BEFORE)
    (root / "dvc.lock").write_text(f"schema: '2.0'\nstages:\n{stages}")
    return root


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pack:
    """Return the package stage on a fake machine; whether the models merge is another test's question and
    costs torch."""
    know = secrets_of_a_machine()
    for name, value in {
        **machine_at(tmp_path / "home", tmp_path / "git"),
        "LOGNAME": USER,
        "USER": USER,
    }.items():
        monkeypatch.setenv(name, value)
    argv = ["assay", "package", "--token", know["argv option"], f"--run={know['argv value']}"]
    monkeypatch.setattr("sys.argv", argv)
    monkeypatch.setattr("sys.orig_argv", argv)
    monkeypatch.setattr("socket.gethostname", lambda: HOST)
    parity = Parity(
        policy_digest="0" * 64,
        base_was_4bit=False,
        prompts=1,
        positions=1,
        tokens=1,
        greedy_agreement=1.0,
        free_agreement=1.0,
        logit_difference_at_most=0.0,
        max_logit_difference=1.0,
        min_greedy_agreement=0.0,
    )
    monkeypatch.setattr(package, "parity_of", lambda project: (parity, MergeComparison(1, 1, 1, 1, 1.0, 0.0)))
    # Whose claim it is comes first in a real project, and test_at_hand asks it; here files are changed on
    # purpose.
    monkeypatch.setattr(package, "claim_at_hand", lambda project: None)
    monkeypatch.setattr(
        package, "ledger_of", lambda project: NOTHING
    )  # its records are not the three lines here

    def pack(root: Path) -> Path:
        if not (root / ".git").exists():
            machine_at(tmp_path / "home", root)
        package.run(Project.open(root))
        return root / "dist/assay-package.tar"

    return pack


def test_nothing_the_machine_knows_gets_into_a_package_by_itself(
    stage: Pack, small: Path, tmp_path: Path
) -> None:
    project = Path(shutil.copytree(small, tmp_path / "project"))
    members = members_of(stage(project).read_bytes())
    observed = {
        path.name: path.read_bytes() for path in (project / "evidence/observed").rglob("*") if path.is_file()
    }
    assert len(members) > 40 and "provenance.json" in observed
    know = {**secrets_of_a_machine(), "folder of the project": str(project)}
    assert {
        what: found for what, value in know.items() if (found := anywhere({**members, **observed}, value))
    } == {}
    assert "git.example/team/code.git" in observed["provenance.json"].decode()


REPORT = "evidence/results/report"
# Where a secret may get to in a real project, and how a file goes on being one when it does.
FILES: dict[str, Callable[[bytes, str], bytes]] = {
    "data/collider/train.jsonl": lambda old, text: old + json.dumps({"note": text}).encode() + b"\n",
    "evidence/results/post_eval/post_eval.jsonl": lambda old, text: (
        old + json.dumps({"completion": text}).encode() + b"\n"
    ),
    "evidence/logs/train/train_log.jsonl": lambda old, text: (
        old + json.dumps({"note": text}).encode() + b"\n"
    ),
    "models/adapter/adapter_config.json": (
        lambda old, text: json.dumps({**json.loads(old), "revision": text}).encode()
    ),
    "models/adapter/adapter_model.safetensors": lambda old, text: CHANNELS[
        "models/adapter/adapter_model.safetensors"
    ](text),
    f"{REPORT}/figures/forest.png": lambda old, text: CHANNELS[f"{REPORT}/figures/curve.png"](ascii(text)),
    f"{REPORT}/report.html": lambda old, text: old.replace(
        b"</body>", f"<p>{escape(text)}</p></body>".encode()
    ),
    f"{REPORT}/summary.md": lambda old, text: old + f"\n{text}\n".encode(),
    f"{REPORT}/plots/rates.csv": lambda old, text: old + f"{text},1\n".encode(),
    "params.yaml": lambda old, text: old.replace(
        b"waivers: []", f"waivers: [{{file: params.yaml, kind: none, reason: {json.dumps(text)}}}]".encode()
    ),
    "evidence/observed/run_log.jsonl": lambda old, text: old + json.dumps({"event": text}).encode() + b"\n",
}


def test_the_package_stage_refuses_every_planted_secret_or_leaves_it_out(
    stage: Pack, small: Path, tmp_path: Path
) -> None:
    secrets, spellings, outcomes = {**tokens(), **secrets_of_a_machine()}, list(WRITTEN), Counter[str]()
    project = Path(shutil.copytree(small, tmp_path / "project"))
    wrong = []
    # Of every secret `packed_by` tells the same; here each file and each spelling has its turn.
    some = list(secrets.items())[::3]
    for n, (what, secret) in enumerate(some):
        file, how = list(FILES)[n % len(FILES)], spellings[n % len(spellings)]
        old = (project / file).read_bytes()
        (project / file).write_bytes(FILES[file](old, WRITTEN[how](secret)))
        try:
            outcomes[refused_or_absent(stage, project, file, secret)] += 1
        except AssertionError as error:
            wrong.append(f"{what}, {how}: {str(error).splitlines()[0]}")
        (project / file).write_bytes(old)
    assert wrong == []
    absent = len(range(len(FILES) - 1, len(some), len(FILES)))
    assert outcomes == {"refused": len(some) - absent, "absent": absent}


def test_the_search_that_judges_the_archive_sees_what_is_there() -> None:
    secret = tokens()["GitHub"]
    seen = {how for how in WRITTEN if anywhere({"a": WRITTEN[how](secret).encode()}, secret)}
    assert seen == set(WRITTEN)
