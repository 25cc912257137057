"""`assay publish sign`: a signature beside a package, made and checked by `model-signing` with a key of one's
own; no network.

It is over the unpacked files, so that who has the archive, a folder, or a copy from a hub checks it alike,
with plain `model_signing verify key` as well. A member of the
package it cannot be: that would change what is signed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from getpass import getpass
from pathlib import Path
from typing import Any

from assay.core.console import say
from assay.core.errors import PackageError
from assay.core.storage.files import read_bytes, write_bytes
from assay.package.verification.checks import Check, LookResult, error_said, looked
from assay.stages.packing.archive import unpack
from assay.stages.packing.layout import NAME

INSTALL = (
    "./run python -m pip install --require-hashes --no-deps --no-build-isolation -r requirements/sign.txt"
)
MAKE = "openssl ecparam -name prime256v1 -genkey -noout -out KEY.pem;"
MAKE += " openssl ec -in KEY.pem -pubout -out PUB.pem"


def run(package: Path, key: Path, out: Path | None) -> None:
    """Sign a package whose files are what its lists say (V0), and write the signature beside nothing that is
    there.

    Args:
        package: A .tar or .tar.gz; an unpacked folder is not signed, what was unpacked from the archive is.
        key: Private key: an elliptic-curve key in PEM, P-256, P-384 or P-521; an encrypted one is asked the
            password of.
        out: Where the signature goes; None: <package>.sig in the folder this is called in, since dist/ is
            DVC's.

    Raises:
        PackageError: The extra is not installed, the package fails V0, the key is none, or there is a file
            already.
    """
    available()
    target = Path(f"{package.name}.sig") if out is None else out
    if not package.is_file():
        fix = "./run assay publish sign dist/assay-package.tar --key KEY.pem"
        found = "a folder" if package.is_dir() else "no such file"
        raise PackageError("an archive", found=found, where=str(package), fix=fix)
    if target.exists():
        fix = "another --out, or remove it"
        raise PackageError("no file there yet", found="one", where=str(target), fix=fix)
    pem = read_bytes(key, fix=f"make a key: {MAKE}")
    with tempfile.TemporaryDirectory(prefix="assay-sign-") as scratch:
        root, made = Path(scratch, NAME), Path(scratch, "made.sig")
        try:
            result = unpack(package, root)
        except PackageError as error:
            fix = f"./run assay verify {package}   (says all of it)"
            raise PackageError("a package", found=error.found, where=str(package), fix=fix) from None
        _make(root, key, made, password=_password(key) if b"ENCRYPTED" in pem else None)
        write_bytes(target, made.read_bytes())
        hint = json.loads(made.read_bytes())["verificationMaterial"]["publicKey"]["hint"]
    files = f"{len(result.files)} files of {package}, sha256 {result.sha256}"
    say(f"{target}: {files}, signed with the key whose public half,")
    say(f"as PEM, has sha256 {hint}. Whoever has that from you by another way can check the package with")
    check = f"./run assay verify {package} --signature {target} --public-key PUB.pem"
    say(f"{check}, or, once it is unpacked, with")
    say(f"model_signing verify key {NAME} --signature {target} --public_key PUB.pem")


def available() -> None:
    """Refuse to go on without the library, or without what it forgets to ask for, with a PackageError."""
    try:
        import model_signing  # noqa: F401
    except ImportError as error:
        found, where = f"not installed ({error.name or error})", "model-signing and pyOpenSSL"
        raise PackageError("the libraries that sign", found=found, where=where, fix=INSTALL) from None


def signature_check(root: Path, signature: Path, public_key: Path) -> Check:
    """Return whether a signature is by a key and over exactly the files of an unpacked package.

    Args:
        root: The unpacked files, and nothing else.
        signature: The detached signature.
        public_key: The public key in PEM, had from the signer by another way than the package.
    """
    return looked("V0", "signature", lambda: _look(root, signature, public_key))


def _look(root: Path, signature: Path, public_key: Path) -> LookResult:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from model_signing import verifying

    told = f"{signature.name} with {public_key.name}"
    try:
        config = verifying.Config().set_hashing_config(_make_hashing())
        config.use_elliptic_key_verifier(public_key=public_key).verify(root, signature)
    except InvalidSignature:
        return LookResult("", [f"{told}: this key did not sign what it lists"])
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        return LookResult(
            "", [f"{told}: no signature, or no elliptic-curve key ({type(error).__name__}: {error})"]
        )
    except (ValueError, UnsupportedAlgorithm) as error:
        return LookResult("", [f"{told}: {error}"])
    n = sum(path.is_file() for path in root.rglob("*"))
    return LookResult(
        f"{signature.name}, by the key in {public_key.name}, is over all {n} files and no others"
    )


def _make_hashing() -> Any:
    """Return how files are hashed: sha256 of each, none passed over."""
    from model_signing import hashing

    whole = hashing.Config().set_ignored_paths(paths=[], ignore_git_paths=False)
    # A signature may name files that its check is to pass over; of a package none is.
    whole.add_ignored_paths = lambda **_: None
    return whole


def _make(root: Path, key: Path, made: Path, *, password: bytes | None) -> None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from model_signing import signing

    try:
        config = signing.Config().set_hashing_config(_make_hashing())
        # The library says that a password is text and hands it to one that takes bytes only.
        signer = config.use_elliptic_key_signer(private_key=key, password=password)
    except (ValueError, TypeError, AttributeError, UnsupportedAlgorithm) as error:
        found = error_said(error).removeprefix("cannot be looked at: ")
        expected, fix = "an elliptic-curve private key in PEM", f"make one: {MAKE}"
        raise PackageError(expected, found=found, where=str(key), fix=fix) from None
    signer.sign(root, made)


def _password(key: Path) -> bytes:
    if not sys.stdin.isatty():
        expected, fix = "somebody to ask for the password", "call it in a terminal"
        raise PackageError(expected, found="no terminal", where=str(key), fix=fix)
    return getpass(f"password of {key}: ").encode()
