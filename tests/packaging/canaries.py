"""Secrets made up for tests, the places where they may turn up, and the ways they may be written there.

Nothing here looks like a token as it stands in this file: all are put together from random letters when the
tests run.
"""

from __future__ import annotations

import base64
import io
import json
import random
import string
import struct
import subprocess
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

_LETTERS = string.ascii_letters + string.digits
USER, HOST = "qwendolyn", "zephyr-gpu-17.lab.example"


def drawn(label: str, length: int, letters: str = _LETTERS) -> str:
    """Return letters that depend on the label alone, with at least one digit and one letter of either case if
    there can be."""
    draw = random.Random(label)
    while True:
        text = "".join(draw.choice(letters) for _ in range(length))
        if letters != _LETTERS or (
            any(c.isdigit() for c in text) and text not in (text.lower(), text.upper())
        ):
            return text


def tokens() -> dict[str, str]:
    """Return secrets that are known by their shape alone: what → text."""
    big, hexadecimal = string.ascii_uppercase + string.digits, "0123456789abcdef"
    jwt = ".".join(
        base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for text in (
            '{"alg":"HS256","typ":"JWT"}',
            '{"sub":"' + drawn("sub", 20) + '"}',
            drawn("signature", 24),
        )
    )
    body = "\n".join(drawn(f"pem{n}", 64) for n in range(3))
    return {
        "Hugging Face": "hf" + "_" + drawn("hf", 34, string.ascii_letters),
        "OpenAI": "sk" + "-" + drawn("openai", 48),
        "OpenAI project": "sk-proj" + "-" + drawn("project", 64),
        "Anthropic": "sk-ant" + "-api03-" + drawn("anthropic", 90),
        "GitHub": "ghp" + "_" + drawn("ghp", 36),
        "GitHub OAuth": "gho" + "_" + drawn("gho", 36),
        "GitHub fine": "github" + "_pat_" + drawn("pat", 60),
        "GitLab": "glpat" + "-" + drawn("glpat", 20),
        "AWS id": "AKIA" + drawn("akia", 16, big),
        "AWS session id": "ASIA" + drawn("asia", 16, big),
        "AWS secret": "aws_secret_access_key = " + drawn("aws", 40),
        "Google": "AI" + "za" + drawn("google", 35),
        "Slack": "xox" + "b-" + drawn("slack", 40),
        "Stripe": "sk" + "_live_" + drawn("stripe", 24),
        "npm": "npm" + "_" + drawn("npm", 36),
        "PyPI": "py" + "pi-AgEI" + drawn("pypi", 80),
        "W&B": "WANDB_API_" + "KEY=" + drawn("wandb", 40, hexadecimal),
        "JWT": jwt,
        "PEM": "-----BEGIN RSA PRIVATE" + f" KEY-----\n{body}\n-----END RSA PRIVATE" + " KEY-----",
        "URL": "https://me:" + drawn("url", 12) + "@example.org/x",
        "bearer": "Authorization: " + "Bearer " + drawn("bearer", 40),
        "basic": (
            "Authorization: " + "Basic " + base64.b64encode(f"me:{drawn('basic', 12)}".encode()).decode()
        ),
        "password": "pass" + f'word="{drawn("password", 12)}"',
        "api key": "api" + f"_key: {drawn('api', 32)}",
        "netrc": "machine h.example login me " + "password " + drawn("netrc", 14),
        "home of another": "/home" + "/someoneelse/run.sh",
        "home on a Mac": "/Users" + "/someoneelse/run.sh",
        "home on Windows": "C:" + "\\Users\\someoneelse\\run.sh",
    }


def secrets_of_a_machine() -> dict[str, str]:
    """Return what the fake machine of `machine_at` knows: where it has it from → value."""
    return {
        "environment HF_TOKEN": drawn("env hf", 37),
        "environment DB_PASSWORD": drawn("env db", 11) + "!#é",
        "environment SHORT_SECRET": "k7-Zq2!",
        "environment LONGKEY": drawn("env long", 300),
        "environment SITE_AUTH": 'pass "word" & <other>/things 9',
        "argv option": drawn("argv", 18),
        "argv value": drawn("argv value", 30),
        "git remote": drawn("remote", 14),
        "git header": drawn("header", 24),
        "netrc password": drawn("netrc pw", 10),
        "netrc login": "q.vandermeer",
        "DVC secret": drawn("dvc", 40),
        "Hugging Face file": drawn("hf file", 37),
        "user name": USER,
        "host name": HOST,
        "short host name": HOST.split(".")[0],
        "home folder": f"/home/{USER}",
        "W&B password": drawn("wandb pw", 40, "0123456789abcdef"),
    }


def machine_at(home: Path, project: Path) -> dict[str, str]:
    """Write the files of a fake machine and return its environment; its user, host and command line are no
    files."""
    know = secrets_of_a_machine()
    home.mkdir(parents=True, exist_ok=True)
    (home / ".netrc").write_text(
        f"machine one.example login {know['netrc login']} password {know['netrc password']}\n"
        f"machine api.wandb.ai\n  login user\n  password {know['W&B password']}\n"
    )
    (home / ".cache/huggingface").mkdir(parents=True, exist_ok=True)
    (home / ".cache/huggingface/token").write_text(know["Hugging Face file"] + "\n")
    (project / ".dvc").mkdir(parents=True, exist_ok=True)
    (project / ".dvc/config.local").write_text(
        f"['remote \"store\"']\n    secret_access_key = {know['DVC secret']}\n"
    )
    for words in (
        ["init", "-q"],
        ["remote", "add", "origin", f"https://bot:{know['git remote']}@git.example:8443/team/code.git?x=1"],
        ["config", "http.https://git.example/.extraheader", f"AUTHORIZATION: basic {know['git header']}"],
    ):
        subprocess.run(["git", *words], cwd=project, check=True, capture_output=True)
    names = ("HF_TOKEN", "DB_PASSWORD", "SHORT_SECRET", "LONGKEY", "SITE_AUTH")
    return {
        **{name: know[f"environment {name}"] for name in names},
        "HOME": str(home),
        "TOKENIZERS_PARALLELISM": "false",
    }


def _line(field: str) -> Callable[[str], bytes]:
    rows = [json.dumps({"id": n, field: "nothing here"}) for n in range(20)]
    return lambda text: "\n".join(
        [*rows, json.dumps({"id": 20, field: f"so it says {text} and goes on"}), *rows]
    ).encode()


def _safetensors(text: str) -> bytes:
    header = json.dumps(
        {"__metadata__": {"note": text}, "w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header + random.Random(0).randbytes(16)


def _png(text: str, *, packed: bool = False) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    raw = text.encode("latin-1")
    note = (
        chunk(b"zTXt", b"Comment\0\0" + zlib.compress(raw)) if packed else chunk(b"tEXt", b"Comment\0" + raw)
    )
    image = (
        chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
        + note
        + chunk(b"IDAT", zlib.compress(b"\0\0"))
    )
    return b"\x89PNG\r\n\x1a\n" + image + chunk(b"IEND", b"")


CHANNELS: dict[str, Callable[[str], bytes]] = {
    "data/collider/train.jsonl": _line("prompt"),
    "evidence/results/post_eval/post_eval.jsonl": _line("completion"),
    "evidence/logs/train/train_log.jsonl": _line("note"),
    "evidence/results/run_log.jsonl": (
        lambda text: json.dumps({"event": "started", "by": text}, ensure_ascii=False).encode()
    ),
    "params.yaml": lambda text: f"seed: 0\ntask:\n  note: {json.dumps(text)}\n".encode(),
    "models/adapter/adapter_config.json": (
        lambda text: json.dumps({"base_model_name_or_path": text}, indent=2).encode()
    ),
    "models/adapter/adapter_model.safetensors": _safetensors,
    "evidence/results/report/figures/curve.png": _png,
    "evidence/results/report/figures/packed.png": lambda text: _png(text, packed=True),
    "evidence/results/report/report.html": (
        lambda text: (
            "<p>" + text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;") + "</p>"
        ).encode()
    ),
    "evidence/README.md": lambda text: f"# Run\n\nIt says:\n{text}\n".encode(),
    "evidence/results/train/training_log.csv": lambda text: f"step,note\n1,{text}\n".encode(),
}


def _base64(skipped: int) -> Callable[[str], str]:
    return lambda text: base64.b64encode(("=('"[:skipped] + text + "') ok").encode()).decode()


WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, one byte on": _base64(1),
    "base64, two bytes on": _base64(2),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "URL": lambda text: quote(text, safe=""),
    "URL, every byte": lambda text: "".join(f"%{c:02X}" for c in text.encode()),
    "JSON": lambda text: json.dumps(text),
    "hex": lambda text: text.encode().hex(),
    "base64 in URL": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
}


def anywhere(members: dict[str, bytes], secret: str) -> list[str]:
    """Return the members that hold a secret in any of these spellings; shares no code with the scan."""
    plain = secret.encode()
    spelled = {write(secret).encode() for name, write in WRITTEN.items() if not name.startswith("base64")}
    for skipped in range(3):
        sure = base64.b64encode(b"\0" * skipped + plain).rstrip(b"=")[
            (0, 2, 3)[skipped] : (skipped + len(plain)) * 8 // 6
        ]
        spelled |= {sure, sure.translate(bytes.maketrans(b"+/", b"-_"))}
    spelled |= {plain.hex().upper().encode(), json.dumps(secret)[1:-1].encode()}
    return [name for name, content in members.items() if any(text in content for text in spelled)]


def members_of(tar: bytes) -> dict[str, bytes]:
    """Return the files of a tar."""
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return {each.name: file.read() for each in archive if (file := archive.extractfile(each)) is not None}
