"""What the scan says of what it finds, what it leaves alone, and what it costs."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path

import pytest

from assay.core.config.settings import Waiver
from assay.core.errors import PackageError
from assay.stages.packing.secrets import search as secrets
from assay.stages.packing.secrets.known import KnownSecret, MachineFacts, known_secrets
from assay.stages.packing.secrets.patterns import tokens as find_tokens
from assay.stages.packing.secrets.search import cleared, refuse, scan
from tests.packaging.canaries import drawn, tokens

ROOT = Path(__file__).resolve().parents[2]
TOKEN = tokens()["GitHub"]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_finding_names_file_line_and_kind_and_never_the_secret() -> None:
    (found,) = scan({"a/b.jsonl": f"one\ntwo\nthree {TOKEN} four\n".encode()}, (), [])
    assert (found.file, found.line, found.byte, found.kind) == ("a/b.jsonl", 3, 14, "github-pat")
    assert (found.begins, found.length, found.sha256) == (TOKEN[:2], len(TOKEN), sha(TOKEN))
    with pytest.raises(PackageError) as refused:
        refuse([found], [])
    assert "a/b.jsonl:3: github-pat" in str(refused.value)
    assert TOKEN not in str(refused.value) and TOKEN[3:] not in found.model_dump_json()


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of windows a sixteenth of what they are: so is the time to read several."""
    for name in ("WINDOW", "OVERLAP", "BEFORE"):
        monkeypatch.setattr(secrets, name, getattr(secrets, name) >> 4)


@pytest.mark.usefixtures("small_windows")
def test_the_line_is_right_after_many_windows_and_in_decoded_text(tmp_path: Path) -> None:
    lines = [f"{n} nothing to see on this line of text" for n in range(7_000)]
    lines[6_600] = base64.b64encode(TOKEN.encode()).decode()
    (tmp_path / "big.txt").write_text("\n".join(lines))
    assert (tmp_path / "big.txt").stat().st_size > 2 * secrets.WINDOW
    (found,) = scan({"big.txt": tmp_path / "big.txt"}, (), [])
    assert (found.line, found.spelling) == (6_601, "base64")


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("at", [-40, -20, -1, 0, 1])
@pytest.mark.parametrize("windows, overlaps", [(1, -1), (1, 0), (2, -1)])
def test_a_secret_across_the_edge_of_a_window_is_found_once_and_whole(
    windows: int, overlaps: int, at: int
) -> None:
    before = windows * secrets.WINDOW + overlaps * secrets.OVERLAP + at
    (found,) = scan({"one line": b"." * before + TOKEN.encode() + b"." * (secrets.WINDOW // 2)}, (), [])
    assert (found.sha256, found.byte, found.line) == (sha(TOKEN), before, 1)


def test_a_binary_file_is_told_by_byte_and_a_files_name_is_read_too() -> None:
    in_bytes, in_name = scan({"w.bin": b"\0\1\2" + TOKEN.encode() + b"\0", f"z/{TOKEN}.txt": b"x"}, (), [])
    assert (in_bytes.line, in_bytes.byte, in_bytes.place) == (None, 3, "w.bin, byte 3")
    assert in_name.line is None and in_name.byte is None


def test_a_waiver_answers_for_one_text_in_one_file_and_keeps_its_reason() -> None:
    members = {"a.txt": TOKEN.encode(), "b.txt": TOKEN.encode()}
    waiver = Waiver(file="a.txt", sha256=sha(TOKEN), reason="a made-up token of a lesson")
    assert [(each.file, each.reason) for each in scan(members, (), [waiver])] == [
        ("a.txt", "a made-up token of a lesson"),
        ("b.txt", None),
    ]
    with pytest.raises(PackageError, match=r"b\.txt:1"):
        cleared(members, (), [waiver])
    (waived,) = cleared({"a.txt": TOKEN.encode()}, (), [waiver])
    assert waived.reason == "a made-up token of a lesson"


def test_the_lines_a_refusal_offers_waive_exactly_what_it_found() -> None:
    import yaml

    members = {f"{n}: odd #name.txt": tokens()["GitLab"].encode() for n in range(3)}
    with pytest.raises(PackageError) as refused:
        cleared(members, (), [])
    offered = yaml.safe_load(str(refused.value).rpartition("say why:\n")[2])["package"]["waivers"]
    waivers = [Waiver(file=each["file"], sha256=each["sha256"], reason="made up") for each in offered]
    assert len(cleared(members, (), waivers)) == 3


def test_a_waiver_of_nothing_is_refused() -> None:
    waiver = Waiver(file="a.txt", sha256=sha(TOKEN), reason="gone by now")
    with pytest.raises(PackageError, match="without"):
        cleared({"a.txt": b"nothing"}, (), [waiver])


def test_ten_findings_are_listed_and_the_others_counted() -> None:
    members = {f"{n:02}.txt": TOKEN.encode() for n in range(14)}
    with pytest.raises(PackageError, match="and 4 more") as refused:
        cleared(members, (), [])
    assert "09.txt" in str(refused.value) and "10.txt" not in str(refused.value)


def test_more_findings_than_anybody_lists_are_refused_and_waived_by_their_kind() -> None:
    import yaml

    text = "\n".join(drawn(str(n), 4) + tokens()["GitHub"][:4] + drawn(str(n), 36) for n in range(1100))
    members = {"a": f"{text}\n{tokens()['GitLab']}".encode()}
    with pytest.raises(PackageError, match="more than 1000") as refused:
        scan(members, (), [])
    offered = yaml.safe_load(str(refused.value).rpartition("of a kind:\n")[2])["package"]["waivers"]
    assert [each["kind"] for each in offered] == ["github-pat", "gitlab-pat"]
    waivers = [Waiver(file=offered[0]["file"], kind=offered[0]["kind"], reason="made up")]
    # What is of another kind, or in another file, is not answered for.
    with pytest.raises(PackageError, match="gitlab-pat"):
        cleared(members, (), waivers)
    with pytest.raises(PackageError, match="b:1: github-pat"):
        cleared({"a": members["a"][:9000], "b": TOKEN.encode()}, (), waivers)
    (waived,) = cleared({"a": text.encode()}, (), waivers)
    assert waived.reason == "made up"
    with pytest.raises(PackageError, match="without: a github-pat"):
        cleared({"a": b"nothing"}, (), waivers)


@pytest.mark.parametrize("said", [{}, {"sha256": "0" * 64, "kind": "e-mail address"}])
def test_a_waiver_names_one_finding_or_one_kind(said: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not both"):
        Waiver.model_validate({"file": "a", "reason": "b", **said})


def test_a_name_counts_as_a_word_of_its_own_in_any_case() -> None:
    known = [KnownSecret("user name", "ferris", True)]
    texts = ("by Ferris.", "ferrisite", "FERRIS_HOME", "x/ferris/y")
    found = {text: bool(scan({"a": text.encode()}, known, [])) for text in texts}
    assert found == {"by Ferris.": True, "ferrisite": False, "FERRIS_HOME": True, "x/ferris/y": True}


def test_what_is_too_common_is_named_and_not_looked_for() -> None:
    machine = MachineFacts(
        environment={
            "A_TOKEN": "true",
            "B_KEY": "/etc/keys/site",
            "C_SECRET": "12345",
            "HF_TOKEN": drawn("x", 30),
        },
        users=["root"],
        hosts=["localhost", "vm"],
        home="/root",
    )
    known = known_secrets(machine)
    assert [each.name for each in known.secrets] == ["environment variable HF_TOKEN"]
    assert set(known.too_common) == {
        "environment variable A_TOKEN",
        "environment variable B_KEY",
        "environment variable C_SECRET",
        "user name",
        "host name",
        "home folder",
    }


def test_what_is_known_of_a_machine_shows_in_no_representation() -> None:
    value = drawn("repr", 30)
    machine = MachineFacts(
        environment={"HF_TOKEN": value},
        argv=[value],
        home=f"/home/{value}",
        netrc=f"machine a password {value}",
    )
    assert value not in repr(machine) + repr(known_secrets(machine)) + repr(known_secrets(machine).secrets)


@pytest.mark.parametrize(
    "text",
    [
        "token = tokenizer.decode(ids)",
        "max_new_tokens: 256",
        '"eos_token": "<|im_end|>"',
        "password: ${DB_PASSWORD}",
        "api_key=os.environ['API_KEY']",
        "the secret: nobody knows",
        "md5: 9b74c9897bac770ffc029102a2c5de83",
        "token=None",
        "https://example.org/home/page/",
        "see https://host.example:8080/a@b",
        "a bearer of news",
        "task-sk-learn",
        "eyJ",
        "pad_token_id=tokenizer.pad_token_id, secret_key=settings.key_name",
        "postgres://user:${PASSWORD}@host/db",
        "the machine is slow; the password follows",
        "sk-" + "a-b",
        "/home/",
        "/usr/home",
        "key: value",
        "token: [UNK]",
        'password_hash_function: str = "sha256"',
        '"password": "string"',
        "credentials: none",
        "access_key: string",
    ],
)
def test_code_and_prose_about_secrets_are_no_secrets(text: str) -> None:
    assert scan({"a": text.encode()}, (), []) == []


@pytest.mark.parametrize(
    "text",
    [
        '{}="swordfish"',
        "{}: Swordf1sh",
        "DB_{}='hunter2hunter2'",
        '"{}": "correct-horse"',
        '{{\\"{}\\":\\"sw0rdfish\\"}}',
    ],
)
def test_a_password_that_is_written_down_is_found(text: str) -> None:
    assert len(scan({"a": text.format("PASS" + "WORD").encode()}, (), [])) == 1


def test_what_is_hidden_too_well_is_missed_and_known_to_be() -> None:
    # Stated as limits of the scan: if one of these is found one day, the text about limits has to change.
    hidden = [
        bytes(letter ^ 23 for letter in TOKEN.encode()),
        base64.b85encode(gzip.compress(TOKEN.encode())),
        f"{TOKEN[:20]} and, after a few words, {TOKEN[20:]}".encode(),
        f"token: {TOKEN[4:16]}".encode().hex()[::-1].encode(),
    ]
    assert [scan({"a": text}, (), []) for text in hidden] == [[]] * len(hidden)


def test_digests_ids_and_random_bytes_are_no_secrets() -> None:
    draw = random.Random(0)
    rows = [
        {"key": draw.randbytes(32).hex(), "id": f"{n:016x}", "md5": draw.randbytes(16).hex()}
        for n in range(3000)
    ]
    members = {
        "dvc.lock": "\n".join(map(json.dumps, rows)).encode(),
        "w.bin": draw.randbytes(1 << 20),
        "b": base64.b64encode(draw.randbytes(1 << 18)),
    }
    assert scan(members, [KnownSecret("user name", "qwen", True)], []) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("folders", "least"), [(("src/assay",), 100), (("evidence/results", "data", "models"), 50)]
)
def test_the_committed_run_its_data_and_our_own_code_hold_nothing(
    folders: tuple[str, ...], least: int
) -> None:
    files = [
        path
        for name in folders
        for path in (ROOT / name).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    ]
    assert len(files) > least
    files += [
        ROOT / name for name in ("params.yaml", "dvc.yaml", "dvc.lock", "pyproject.toml", "constraints.txt")
    ]
    members: dict[str, bytes | Path] = {path.relative_to(ROOT).as_posix(): path for path in files}
    known = known_secrets(
        MachineFacts(users=["vandermeer"], hosts=["zephyr-17.lab.example"], home="/home/vandermeer")
    )
    assert [f"{each.place}: {each.kind}" for each in scan(members, known.secrets, [])] == []


def test_what_is_observed_of_the_committed_run_leaks_nothing() -> None:
    members: dict[str, bytes | Path] = {
        path.name: path for path in (ROOT / "evidence/observed").glob("*.json*")
    }
    assert "manifest.json" in members
    assert scan(members, (), []) == []
    text = (ROOT / "evidence/observed/manifest.json").read_text()
    assert not any(sign in text for sign in ('"/', "argv", "hostname", "://"))


@pytest.mark.parametrize(
    "piece",
    [
        "eyJaaaaaaaa.",
        "\\",
        "%2541",
        "machine a login b ",
        " sk-",
        "&amp;",
        "bearer aaaaaaaaaaaaaaaaaaaaa ",
        "\\u0041",
        "a\0",
        *(
            pytest.param(piece, marks=pytest.mark.long)
            for piece in (
                "://a:",
                "password= ",
                "-----BEGIN PRIVATE KEY-----",
                "/home/",
                "QUJD" * 16 + "\n",
                "x-x_",
            )
        ),
    ],
)
def test_a_hostile_text_costs_seconds_at_most(piece: str) -> None:
    text = (piece * (secrets.WINDOW // len(piece) + 1)).encode()
    began = time.process_time()
    scan({"a": text}, [KnownSecret("user name", "qwen", True)], [])
    assert time.process_time() - began < 10


def test_a_pictures_text_that_unpacks_without_end_is_refused() -> None:
    packed = b"Comment\0\0" + zlib.compress(bytes(1 << 24))
    with pytest.raises(PackageError, match="in a picture"):
        scan(
            {"a.png": b"\x89PNG\r\n\x1a\n" + struct.pack(">I", len(packed)) + b"zTXt" + packed + b"crc."},
            (),
            [],
        )


def test_memory_does_not_grow_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "WINDOW", 1 << 15)
    peaks = []
    for kilobytes in (256, 1024):
        (tmp_path / "big").write_bytes(random.Random(0).randbytes(1 << 10) * kilobytes)
        tracemalloc.start()
        scan({"big": tmp_path / "big"}, (), [])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.25 * peaks[0]


@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="this system shows no command lines of parents"
)
def test_the_command_line_of_a_parent_is_known(tmp_path: Path) -> None:
    child = (
        "import hashlib, pathlib, sys; from assay.stages.packing.secrets.known import this_machine;found ="
        " [hashlib.sha256(word.encode()).hexdigest() for word in"
        f" this_machine(pathlib.Path('.')).argv];sys.exit(0 if '{sha(TOKEN)}' in found else 3)"
    )
    parent = (
        "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert (
        subprocess.run([sys.executable, "-c", parent, child, TOKEN], env=environment, check=False).returncode
        == 0
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", parent, child, "other"], env=environment, check=False
        ).returncode
        == 3
    )


def test_a_member_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="regular file"):
        scan({"gone": tmp_path / "gone"}, (), [])


@pytest.mark.parametrize("text", ["token=your_api_key={}", "password: {{token: {}, x: 1}}"])
def test_a_secret_inside_what_is_no_value_of_another_name_is_found(text: str) -> None:
    value = "Zx8kQ2mN7p" + "Lw4RtY9v"
    said = text.format(value).encode()
    assert [said[hit.start : hit.end].decode() for hit in find_tokens(said)] == [value]


def test_a_name_that_leads_to_an_object_of_that_name_is_no_secret_and_to_another_word_is_one() -> None:
    said = '{"AnswerKey": "assay.rollout.tasks.own.api:%s"}'
    hits = [len(list(find_tokens((said % word).encode()))) for word in ("AnswerKey", "Zx8kQ2mN7pLw4RtY9v")]
    assert hits == [0, 1]


def test_an_address_by_chance_in_compressed_bytes_is_none_and_one_beside_text_is() -> None:
    address = b"quinn" + b"@" + b"hartwell-labs.com"
    mailed = [
        any(hit.kind == "e-mail address" for hit in find_tokens(text))
        for text in (
            b"\x00\x93\xfe\x01" + address + b"\x02\xff\x9c\x00",
            b"write to " + address + b"\x00\x01\x02",
            "邮箱：".encode() + address + "。".encode(),
            address,
        )
    ]
    assert mailed == [False, True, True, True]


def test_packed_pixels_look_like_a_name_with_a_value_by_chance_alone() -> None:
    chance = b"\r\x94\x93PW=pph\xd3\x96f\xed\x96\\=S"
    pixels, text = zlib.compress(chance, 0), b"Comment\0" + chance
    assert chance in pixels, "packed without being made shorter, so that it is there to be seen"

    def png(*chunks: tuple[bytes, bytes], end: bytes = b"") -> bytes:
        return (
            b"\x89PNG\r\n\x1a\n"
            + b"".join(struct.pack(">I", len(body)) + name + body + b"crc." for name, body in chunks)
            + end
        )

    assert not scan({"a.png": png((b"IDAT", pixels[:9]), (b"IDAT", pixels[9:]))}, [], [])
    for told in (
        png((b"IDAT", pixels), (b"tEXt", text)),
        png((b"IDAT", pixels), end=chance),
        png((b"IDAT", pixels[:-6])),  # a torn picture: it may hold anything
    ):
        assert [each.kind for each in scan({"a.png": told}, [], [])] == ["value of a secret's name"]
    token = b"ghp_" + b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    assert scan({"a.png": png((b"IDAT", zlib.compress(token, 0)))}, [], []), "a provider's shape is no chance"
