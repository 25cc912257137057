"""What software a package was made with: a bill of materials beside it (CycloneDX 1.6), a function of what is
installed here.

It lies beside the archive, not in it: another machine has other builds of the same versions, and the archive
is the same there. Source: ECMA-424, CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/; package URLs:
https://github.com/package-url/purl-spec.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from packaging.requirements import Requirement

SBOM = "assay-package.cdx.json"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;#]+)$")
_FILE = re.compile(r"    # --hash=sha256:([0-9a-f]{64})  (\S+)$")
_LONGEST_NAME = 80  # of a licence; what is longer is its text, put where its name belongs
_CLASSIFIER = "License :: "


@dataclass(frozen=True, slots=True)
class Installed:
    """A distribution as it is installed: its metadata and the tags of the wheel it came as."""

    name: str
    version: str
    expression: str | None
    licence: str | None
    classifiers: tuple[str, ...]
    tags: frozenset[str]
    requires: tuple[str, ...] = ()


def sbom(constraints: str, installed: Mapping[str, Installed], package: str, identity: str) -> dict[str, Any]:
    """Return the bill of materials of a package; equal for equal inputs, without a clock.

    Args:
        constraints: Text of constraints.txt: what a set-up may install, and the sha256 of each file.
        installed: What is installed of it here, by name as `same` spells it.
        package: What stands for the package: its list of files.
        identity: The sha256 of that.
    """
    files = _files(constraints)
    chosen = {name: installed[name] for name in sorted(files) if name in installed}
    needs = {
        _purl(each): sorted(_purl(chosen[name]) for name in _needs(each) if name in chosen)
        for each in chosen.values()
    }
    components = [_component(each, files[name]) for name, each in chosen.items()]
    python = {
        "type": "platform",
        "bom-ref": "python",
        "name": platform.python_implementation(),
        "version": platform.python_version(),
        "purl": f"pkg:generic/python@{platform.python_version()}",
    }
    about = {"type": "data", "bom-ref": "package", "name": package, "hashes": _hash(identity)}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, identity)}",
        "version": 1,
        "metadata": {"component": about},
        "components": [*components, python],
        "dependencies": [
            {"ref": "package", "dependsOn": [*sorted(needs), "python"]},
            *({"ref": ref, "dependsOn": needed} for ref, needed in sorted(needs.items())),
        ],
    }


def sbom_faults(
    told: Any, constraints: str, installed: Mapping[str, Installed], package: str, identity: str
) -> Iterator[str]:
    """Yield in what a bill of materials is not that of a package: of what its pins leave open, licences are
    compared where the same version is installed here, and what needs what is not.

    Args:
        told: The bill; the other arguments as of `sbom`.
    """
    head = sbom(constraints, {}, package, identity)
    for name in sorted({*head, *told} - {"components", "dependencies"}):
        if told.get(name) != head.get(name):
            yield f"{name}: {told.get(name)!r:.80}, expected {head.get(name)!r:.80}"
    files, pins = _files(constraints), _pins(constraints)
    *libraries, python = told["components"]
    version = python["version"]
    if python != head["components"][-1] | {"version": version, "purl": f"pkg:generic/python@{version}"}:
        yield f"components: {python!r:.80}, expected a Python and its version"
    for each in libraries:
        name, version = same(each["name"]), each["version"]
        if pins.get(name) != version.partition("+")[0]:
            yield f"{name}: version {version}, and {pins.get(name)} in constraints.txt"
            continue
        bare = _component(Installed(each["name"], version, None, None, (), frozenset()), [])
        if bare != {field: each[field] for field in each if field not in ("licenses", "hashes")}:
            yield f"{name}: {each!r:.80}, expected {bare!r:.80}"
        if "hashes" in each and each["hashes"] not in [_hash(digest) for _, digest in files[name]]:
            yield f"{name}: a sha256 of none of its files in constraints.txt"
        here = installed.get(name)
        if here and here.version == version and each.get("licenses", []) != list(_licences(here)):
            yield f"{name}: licences {each.get('licenses')!r:.80}, and its files here say otherwise"
    refs = sorted(each["bom-ref"] for each in libraries)
    whole, *others = told["dependencies"]
    needed = [(each["ref"], [*each], each["dependsOn"]) for each in others]
    known = all(needs == sorted({*needs} & {*refs}) for _, _, needs in needed)
    if (
        whole != {"ref": "package", "dependsOn": [*refs, "python"]}
        or [(ref, fields) for ref, fields, _ in needed] != [(ref, ["dependsOn", "ref"]) for ref in refs]
        or not known
        or len({*refs}) < len(refs)
    ):
        yield "dependencies: not those of its components"


def installed_here() -> dict[str, Installed]:
    """Return every distribution that is installed in this environment, by name as `same` spells it."""
    found = {}
    for each in importlib.metadata.distributions():
        told, wheel = each.metadata, each.read_text("WHEEL") or ""
        found[same(told["Name"])] = Installed(
            told["Name"],
            each.version,
            _first(told, "License-Expression"),
            _first(told, "License"),
            tuple(told.get_all("Classifier") or ()),
            frozenset(re.findall(r"^Tag: (\S+)$", wheel, re.MULTILINE)),
            tuple(each.requires or ()),
        )
    return found


def _first(told: importlib.metadata.PackageMetadata, name: str) -> str | None:
    return next(iter(told.get_all(name) or ()), None)


def same(name: str) -> str:
    """Return a distribution's name as all its spellings compare equal.

    >>> same("ruamel.yaml"), same("Typing_Extensions")
    ('ruamel-yaml', 'typing-extensions')
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def tags_of(wheel: str) -> frozenset[str]:
    """Return the tags that the name of a wheel stands for.

    >>> sorted(tags_of("six-1.17.0-py2.py3-none-any.whl"))
    ['py2-none-any', 'py3-none-any']
    """
    pythons, abis, platforms = (part.split(".") for part in wheel.removesuffix(".whl").split("-")[-3:])
    return frozenset(f"{python}-{abi}-{place}" for python in pythons for abi in abis for place in platforms)


def _files(constraints: str) -> dict[str, list[tuple[str, str]]]:
    """Return (file, sha256) of every file of each pin."""
    found: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for line in constraints.split("\n"):
        if pin := _PIN.match(line):
            name = same(pin.group(1))
            found[name] = []
        elif file := _FILE.match(line):
            found[name].append((file.group(2), file.group(1)))
    return found


def _pins(constraints: str) -> dict[str, str]:
    """Return the version of each pin."""
    return {same(pin[1]): pin[2] for line in constraints.split("\n") if (pin := _PIN.match(line))}


def _purl(each: Installed) -> str:
    return f"pkg:pypi/{same(each.name)}@{quote(each.version, safe='')}"


def _needs(each: Installed) -> set[str]:
    """Return what a distribution asks for on this machine, extras left out."""
    asked = (Requirement(line) for line in each.requires)
    return {same(one.name) for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})}


def _component(each: Installed, files: list[tuple[str, str]]) -> dict[str, Any]:
    purl = _purl(each)
    found: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": each.name,
        "version": each.version,
        "purl": purl,
    }
    if licences := list(_licences(each)):
        found["licenses"] = licences
    if digest := _came_as(each, files):
        found["hashes"] = _hash(digest)
    return found


def _came_as(each: Installed, files: list[tuple[str, str]]) -> str | None:
    """Return the sha256 of the file that a distribution was installed from; None where that cannot be told
    for certain."""
    own = [
        (name, digest)
        for name, digest in files
        if name.removesuffix(".tar.gz").split("-")[1:2] == [each.version]
    ]
    own += [pair for pair in files if pair not in own and pair[0].endswith(f"-{each.version}.tar.gz")]
    if len(own) > 1:
        own = [(name, digest) for name, digest in own if name.endswith(".whl") and tags_of(name) == each.tags]
    return own[0][1] if len(own) == 1 else None


def _spdx(text: str) -> str | None:
    """Return a licence as SPDX spells it; None for what is none of its ids, such as `Apache`.

    >>> _spdx("apache-2.0"), _spdx("Apache")
    ('Apache-2.0', None)
    """
    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        return None


def _licences(each: Installed) -> Iterator[dict[str, Any]]:
    if each.expression and (known := _spdx(each.expression)):
        yield {"expression": known}
        return
    said = (each.licence or "").strip()
    if said and "\n" not in said and len(said) <= _LONGEST_NAME and said.upper() != "UNKNOWN":
        known = _spdx(said)
        yield {"license": {"id": known} if known and " " not in known else {"name": said}}
        return
    for line in sorted(set(each.classifiers)):
        if line.startswith(_CLASSIFIER) and (name := line.rpartition(" :: ")[2]) != "OSI Approved":
            yield {"license": {"name": name}}


def _hash(digest: str) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest}]
