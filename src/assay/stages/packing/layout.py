"""Which files of a run go into its package; a name that is not in this table has no business in one.

A list of what is dangerous is never complete, and what a digest leaves out (a README, a hidden file) is where
something can be hidden. So names are allowed, not forbidden: `assay package` refuses to pack another one, and
`assay verify` fails for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from assay.core.errors import PackageError
from assay.core.evidence_files import FOLDERS, OBSERVED, place_of
from assay.rollout.policy.base.model_files import CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG

# What is made for the package; everything else lies in the project already, so an unpacked package is a
# project.
SUMS, CARD, PROVENANCE, PARITY, VERIFIER, LOCK = (
    "SHA256SUMS",
    "README.md",
    "provenance.json",
    "parity.json",
    "verify.py",
    "dvc.lock",
)
# Of the ledger what the claim rests on.
OPENINGS = f"{OBSERVED}/heldout_openings.json"
NAME = "assay-package"
# What the code of a task that was brought along said, so that a check need not run it.
TOLD = "told.jsonl"
# Where a pretrained base lies on this machine; base.json has its revision and digest, and that is what
# travels.
POINTER = "pointer.json"
# What Python and the desktop leave beside files; .dvcignore keeps the same from every digest of a folder.
_LITTER = frozenset(
    {"__pycache__", ".DS_Store", ".ipynb_checkpoints", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)

BASE, ADAPTER = "models/base", "models/adapter"
# Of a base that was built here, exactly what transformers saves of it; a pretrained one is not in a package.
BASE_FILES = (
    "model.safetensors",
    "tokenizer.json",
    "chat_template.jinja",
    CONFIG,
    GENERATION_CONFIG,
    TOKENIZER_CONFIG,
)
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
BESIDE = (
    "params.yaml",
    "constraints.txt",
    "requirements.txt",
    "pyproject.toml",
    "LICENSE",
    "evidence/README.md",
)
MADE = (SUMS, CARD, PROVENANCE, PARITY, VERIFIER, LOCK, OPENINGS)
_FLAT, _PART = r"[A-Za-z0-9][A-Za-z0-9_.-]*", r"[^/.][^/]*"
# Data are anybody's, and nothing of them is ever loaded but text: records, schemas, terms, what describes
# them.
_DATA = re.compile(
    rf"({_PART}/)*({_PART}\.(jsonl|json|md|txt|csv|tsv|yaml|yml|rst)|SHA256SUMS|LICENSE|NOTICE|CITATION\.cff)"
)
# Code of a task that was brought along: it is listed and hashed, and run only by who asks for it.
_CODE = re.compile(rf"({_PART}/)*{_PART}\.(py|jsonl|json|md|txt|csv|tsv|yaml|yml|toml)")
_RUNS = re.compile(r"\.(py|pyc|pyo|pyd|so|dll|dylib|sh|exe|js|jar|whl|egg|zip|tar|gz)\Z", re.IGNORECASE)
_PAGES = (".md", ".rst", ".txt")
# What makes a browser, or a page that shows Markdown, run or fetch something.
_ACTIVE = re.compile(
    rb"<\s*/?\s*(?:script|iframe|object|embed|link|meta|base|form|style|svg|math|img|video|audio|input|button)\b"
    rb"|<[^<>]*\son[a-z]+\s*=|javascript:|data:text/html",
    re.IGNORECASE,
)
# Loading one of these can run what it holds.
_CARRIERS = ".bin .pt .pth .pkl .pickle .ckpt .joblib .dill .npy .npz .h5 .keras .msgpack"
CODE_CARRIERS = tuple(_CARRIERS.split())


def strangers(
    names: Iterable[str], *, data: str, scratch: bool, adapter: bool = True, code: str | None = None
) -> Iterator[str]:
    """Yield every name that has no place in a package, with the reason.

    Args:
        names: Relative POSIX paths of all files.
        data: Folder of the data, relative.
        scratch: Whether the base was built here, so that the package holds it.
        adapter: Whether it was an adapter that was trained, or brought, and no whole model.
        code: Folder of a task that was brought along; None: it is part of assay.

    >>> list(strangers(["models/base/modeling_x.py"], data="data/x", scratch=True))
    ['models/base/modeling_x.py: code, which no model folder of assay holds']
    """
    exact = {*BESIDE, *MADE, *(f"{ADAPTER}/{name}" for name in ADAPTER_FILES if adapter)}
    exact |= {f"{BASE}/{name}" for name in BASE_FILES} if scratch else set()
    exact |= set() if code is None else {TOLD}
    exact |= {place_of(name) for name in FOLDERS if "." in name}
    folders = {
        f"{data}/": _DATA,
        **({} if code is None else {f"{code}/": _CODE}),
        f"{place_of('figures')}/": re.compile(rf"{_FLAT}\.(svg|png)"),
        **{
            f"{place_of(name)}/": re.compile(rf"{_FLAT}\.jsonl")
            for name in ("pre_eval_secondary", "post_eval_secondary")
        },
        f"{place_of('plots')}/": re.compile(rf"{_FLAT}\.csv"),
        f"{place_of('scripted')}/": re.compile(rf"{_FLAT}\.jsonl\.gz"),
    }
    for name in sorted(names):
        if name in exact:
            continue
        inside = next((form for folder, form in folders.items() if name.startswith(folder)), None)
        folder = next((each for each in folders if name.startswith(each)), "")
        if inside is None or not inside.fullmatch(name.removeprefix(folder)):
            yield f"{name}: {_reason(name, scratch)}"


def active_in(data: str, members: Mapping[str, bytes | Path]) -> Iterator[str]:
    """Yield every page of the data, which is its maker's word, that would do more in a browser than be read.

    Args:
        data: Folder of the data, relative.
        members: Path in the package → content, or the file that has it.

    >>> list(active_in("data/x", {"data/x/README.md": b"# Words\\n<ScRipt src=//x>"}))
    ['data/x/README.md: holds <ScRipt, which is more than text']
    """
    home = f"{PurePosixPath(data).as_posix()}/"
    for name in sorted(members):
        if not (name.startswith(home) and name.endswith(_PAGES)):
            continue
        content = members[name]
        text = content if isinstance(content, bytes) else content.read_bytes()
        if found := _ACTIVE.search(text):
            yield f"{name}: holds {found[0].decode('ascii', 'replace').strip()[:20]}, which is more than text"


def _reason(name: str, scratch: bool) -> str:
    if any(part.startswith(".") for part in name.split("/")):
        return "a hidden file"
    if name.lower().endswith(CODE_CARRIERS):
        return "a format that can run code when it is loaded"
    model = name.startswith("models/")
    if _RUNS.search(name):
        return (
            "code, which no model folder of assay holds"
            if model
            else "code or an archive where a package holds none"
        )
    if model and name.rsplit("/", 1)[-1].upper().startswith("README"):
        return "a text that no digest of the model covers; the model card is README.md at the top"
    if name.startswith(f"{BASE}/") and not scratch:
        return "a pretrained base is not packed, so nothing may lie in its place"
    return (
        f"none of what {BASE if name.startswith(BASE) else ADAPTER} holds"
        if model
        else "has no place in a package"
    )


def files_of(root: Path, entries: Iterable[str], *, fix: str) -> Iterator[tuple[str, Path]]:
    """Yield the name and path of every file that the entries name, folders with all they hold.

    Args:
        root: Folder of the run.
        entries: Relative POSIX paths of files and folders.
        fix: What to type where one is missing.

    Raises:
        PackageError: An entry is missing, or a link.
    """
    for entry in entries:
        top = root / entry
        if top.is_symlink() or not top.exists():
            found = "a link" if top.is_symlink() else "nothing"
            raise PackageError("a file or folder of the run", found=found, where=entry, fix=fix)
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            name = path.relative_to(root)
            if path.name == POINTER or path.suffix == ".pyc" or _LITTER & set(name.parts):
                continue
            if path.is_symlink():
                raise PackageError(
                    "files, no links", found="a link", where=name.as_posix(), fix="put the file in its place"
                )
            if path.is_file():
                yield name.as_posix(), path
