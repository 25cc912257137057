"""`assay publish sign` and `verify --signature`: by this key and over exactly these files, or it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from assay.core.errors import AssayError, PackageError
from assay.package import checking as tool
from assay.package.checking import VerifyRequest
from assay.package.publish import sign
from assay.package.verification import levels as levels_room
from assay.stages.packing import verify as plain
from assay.stages.packing.archive import sealed, unpack, write_gz, write_tar
from tests.house import ROOT

FILES: dict[str, bytes | Path] = {
    "verify.py": (ROOT / "src/assay/stages/packing/verify.py").read_bytes(),
    "provenance.json": b'{"format":"assay-package/7"}\n',
    "models/adapter/a.safetensors": bytes(range(256)),
    "evidence/results/report/claim.json": b"{}\n",
}


def packed(path: Path, files: dict[str, bytes | Path]) -> Path:
    write_tar(path, sealed(dict(files)), root="assay-package")
    return path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return packed(tmp_path / "assay-package.tar", FILES)


@pytest.fixture(autouse=True)
def levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """V1 to V3 need a whole run, and have tests of their own."""
    monkeypatch.setattr(levels_room, "all_levels", lambda *_, **__: iter(()))


def keys(folder: Path, name: str, password: bytes | None = None) -> tuple[Path, Path]:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    hidden = form.NoEncryption() if password is None else form.BestAvailableEncryption(password)
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    private.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, hidden))
    public.write_bytes(
        key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def looked(package: Path, signature: Path, public: Path) -> tuple[int, str]:
    """Return the exit code and what the check of the signature came to."""
    asked = VerifyRequest(signature=signature, public_key=public)
    (found,) = [c for c in tool.verified(package, plain.check(package), asked) if c.name == "signature"]
    assert found.level == "V0"
    return tool.run(package, asked, None), f"{found.outcome}: {found.found}"


def test_without_the_extra_one_message_says_what_to_type(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "model_signing", None)
    (tmp_path / "key").touch()
    for call in (
        lambda: sign.run(package, tmp_path / "key", None),
        lambda: tool.run(package, VerifyRequest(signature=package, public_key=package), None),
    ):
        with pytest.raises(PackageError) as error:
            call()
        assert "pip install" in error.value.fix and "-r requirements/sign.txt" in error.value.fix
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert "\nsign = [" in pyproject and "model-signing" not in (ROOT / "requirements.txt").read_text(
        encoding="utf-8"
    )


def test_a_signature_without_the_key_it_has_to_be_by_checks_nothing(package: Path) -> None:
    with pytest.raises(PackageError, match="one of them"):
        tool.run(package, VerifyRequest(signature=package), None)
    with pytest.raises(AssayError, match="readable file"):
        tool.run(package, VerifyRequest(signature=package, public_key=package.with_name("none")), None)


def test_tar_gzip_and_folder_pass_with_the_key_and_fail_with_another(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("model_signing")
    (private, public), (_, other), signature = keys(tmp_path, "a"), keys(tmp_path, "b"), tmp_path / "a.sig"
    before = package.read_bytes()
    sign.run(package, private, signature)
    assert package.read_bytes() == before
    write_gz(tmp_path / "assay-package.tar.gz", package)
    folder = tmp_path / "assay-package"
    unpack(package, folder)
    for form in (package, tmp_path / "assay-package.tar.gz", folder):
        code, said = looked(form, signature, public)
        assert code == 0 and said.startswith("passed") and f"all {len(FILES) + 1} files" in said
        code, said = looked(form, signature, other)
        assert code == 1 and said.startswith("failed") and "Key mismatch" in said
    for given, found in ((public, 0), (other, 1)):  # as a third party would, with that library alone
        call = [sys.executable, "-m", "model_signing", "verify", "key", str(folder)]
        call += ["--signature", str(signature), "--public_key", str(given)]
        assert subprocess.run(call, check=False, capture_output=True).returncode == found
    with pytest.raises(PackageError, match="no file there yet"):
        sign.run(package, private, private)


@pytest.mark.parametrize("change", ["a byte", "a file more", "a file less", "a name"])
def test_another_package_fails_though_its_own_lists_are_right(
    package: Path, tmp_path: Path, change: str
) -> None:
    pytest.importorskip("model_signing")
    (private, public), signature = keys(tmp_path, "a"), tmp_path / "a.sig"
    sign.run(package, private, signature)
    files = dict(FILES)
    if change == "a byte":
        files["evidence/results/report/claim.json"] = b"{ \n"
    elif change == "a file more":
        files["evidence/results/more"] = b""
    else:
        content = files.pop("models/adapter/a.safetensors")
        files |= {"models/adapter/b.safetensors": content} if change == "a name" else {}
    code, said = looked(packed(tmp_path / "other.tar", files), signature, public)
    assert code == 1 and said.startswith("failed") and "Signature mismatch" in said


def test_a_signature_that_passes_over_files_or_is_edited_fails(package: Path, tmp_path: Path) -> None:
    model_signing = pytest.importorskip("model_signing")
    (private, public), signature, folder = keys(tmp_path, "a"), tmp_path / "a.sig", tmp_path / "assay-package"
    unpack(package, folder)
    some = model_signing.hashing.Config().set_ignored_paths(paths=[Path("evidence")])
    made = (
        model_signing.signing.Config().set_hashing_config(some).use_elliptic_key_signer(private_key=private)
    )
    made.sign(folder, signature)
    # By itself the library lets it pass.
    model_signing.verifying.Config().use_elliptic_key_verifier(public_key=public).verify(folder, signature)
    code, said = looked(package, signature, public)
    assert code == 1 and "evidence/results/report/claim.json" in said
    sign.run(package, private, tmp_path / "b.sig")
    whole = (tmp_path / "b.sig").read_text(encoding="utf-8")
    edited = whole.replace('"sig":"', '"sig":"A'), whole.replace('"payload":"', '"payload":"IC')
    for text in (*edited, whole[:-1], "{}", "", "[]"):
        signature.write_text(text, encoding="utf-8")
        code, said = looked(package, signature, public)
        assert code == 1 and said.startswith("failed"), text[:80]


def test_an_encrypted_key_is_asked_its_password_and_what_is_no_key_is_refused(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("model_signing")
    (private, public), signature = keys(tmp_path, "a", b"a word"), tmp_path / "a.sig"
    with pytest.raises(PackageError, match="no terminal"):
        sign.run(package, private, signature)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    for word, passes in (("another", False), ("a word", True)):
        monkeypatch.setattr(sign, "getpass", lambda _, word=word: word)
        if passes:
            sign.run(package, private, signature)
        else:
            with pytest.raises(PackageError, match="elliptic-curve"):
                sign.run(package, private, signature)
    assert looked(package, signature, public)[0] == 0
    with pytest.raises(PackageError, match="elliptic-curve"):
        sign.run(package, public, tmp_path / "b.sig")
    assert not (tmp_path / "b.sig").exists()
