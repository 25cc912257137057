"""The bill of materials: what CycloneDX 1.6 asks of one holds, equal inputs give equal bytes, each hash is of
the file used."""

from __future__ import annotations

import re
from typing import Any

import pytest

from assay.core.storage.json import dumps
from assay.stages.packing.sbom import Installed, installed_here, same, sbom
from tests.house import ROOT

PINS = """# a comment
wares==1.0
    # --hash=sha256:{a}  wares-1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
    # --hash=sha256:{b}  wares-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
    # --hash=sha256:{c}  wares-1.0+own-cp311-cp311-manylinux_2_17_x86_64.whl
Old.Tool==4.9.3
    # --hash=sha256:{d}  Old-Tool-4.9.3.tar.gz
not-here==2
    # --hash=sha256:{a}  not_here-2-py3-none-any.whl
""".format(**{name: name * 64 for name in "abcd"})
TAGS = frozenset({"cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-manylinux2014_x86_64"})


def installed(name: str, version: str, **changes: Any) -> Installed:
    told = {"expression": None, "licence": None, "classifiers": (), "tags": TAGS} | changes
    return Installed(name, version, **told)


def made(*each: Installed) -> dict[str, Any]:
    return sbom(PINS, {same(one.name): one for one in each}, "assay-package.tar", "e" * 64)


def component(each: Installed) -> dict[str, Any]:
    return next(found for found in made(each)["components"] if found["name"] == each.name)


def digest(found: dict[str, Any]) -> str | None:
    return found["hashes"][0]["content"] if "hashes" in found else None


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (installed("wares", "1.0"), "a" * 64),
        (installed("wares", "1.0+own", tags=frozenset({"cp311-cp311-manylinux_2_17_x86_64"})), "c" * 64),
        (installed("wares", "1.0", tags=frozenset({"cp313-cp313-win_amd64"})), None),
        (installed("wares", "1.1"), None),
        (installed("old_tool", "4.9.3", tags=frozenset({"py3-none-any"})), "d" * 64),
    ],
)
def test_a_hash_is_that_of_the_file_that_was_installed_or_left_out(
    each: Installed, expected: str | None
) -> None:
    assert digest(component(each)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"expression": "MIT AND 0BSD", "licence": "x"}, [{"expression": "MIT AND 0BSD"}]),
        ({"licence": "BSD"}, [{"license": {"name": "BSD"}}]),
        ({"licence": "apache-2.0"}, [{"license": {"id": "Apache-2.0"}}]),
        ({"expression": "Apache", "licence": "Apache"}, [{"license": {"name": "Apache"}}]),
        (
            {
                "licence": "The whole\ntext",
                "classifiers": ("License :: OSI Approved :: MIT License", "Topic :: x"),
            },
            [{"license": {"name": "MIT License"}}],
        ),
        ({"licence": "UNKNOWN", "classifiers": ("License :: OSI Approved",)}, None),
    ],
)
def test_a_licence_is_what_its_package_says_and_never_guessed(changes: dict[str, Any], expected: Any) -> None:
    assert component(installed("wares", "1.0", **changes)).get("licenses") == expected


def test_equal_inputs_give_equal_bytes_in_whatever_order_they_are_found() -> None:
    one, other = installed("wares", "1.0"), installed("Old.Tool", "4.9.3")
    assert dumps(made(one, other)) == dumps(made(other, one))
    assert made(one)["serialNumber"] != sbom(PINS, {}, "assay-package.tar", "f" * 64)["serialNumber"]


def test_what_is_not_installed_and_what_is_not_pinned_is_left_out() -> None:
    names = [
        found["name"] for found in made(installed("wares", "1.0"), installed("jupyterlab", "9"))["components"]
    ]
    assert names == ["wares", "CPython"]


def test_that_of_this_environment_keeps_the_rules_of_cyclonedx() -> None:
    """Required fields, patterns and enumerations of the published JSON schema, for the fields that are
    used."""
    found = sbom((ROOT / "constraints.txt").read_text(), installed_here(), "assay-package.tar", "e" * 64)
    assert set(found) == {
        "bomFormat",
        "specVersion",
        "serialNumber",
        "version",
        "metadata",
        "components",
        "dependencies",
    }
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", found["serialNumber"]
    )
    parts = [found["metadata"]["component"], *found["components"]]
    refs = [each["bom-ref"] for each in parts]
    assert len(set(refs)) == len(refs) > 150
    for each in parts:
        assert each["type"] in ("library", "platform", "data") and each["name"]
        assert set(each) <= {"type", "bom-ref", "name", "version", "purl", "licenses", "hashes"}
        assert each["type"] == "data" or re.fullmatch(
            r"pkg:(pypi|generic)/[a-z0-9.-]+@[A-Za-z0-9.%+-]+", each["purl"]
        )
        for one in each.get("hashes", ()):
            assert one["alg"] == "SHA-256" and re.fullmatch("[0-9a-f]{64}", one["content"])
        licences = each.get("licenses", [])
        assert all(set(one) in ({"expression"}, {"license"}) for one in licences)
        assert len(licences) == 1 or not any("expression" in one for one in licences)
    package, *others = found["dependencies"]
    assert package["ref"] == "package" and set(package["dependsOn"]) == set(refs) - {"package"}
    assert [each["ref"] for each in others] == sorted(set(refs) - {"package", "python"})
    assert all(set(each["dependsOn"]) <= set(refs) - {"package", each["ref"]} for each in others)
    by_name = {each["ref"].partition("@")[0]: each["dependsOn"] for each in others}
    assert "pkg:pypi/tokenizers" in {ref.partition("@")[0] for ref in by_name["pkg:pypi/transformers"]}
    known = [each for each in found["components"] if "hashes" in each]
    assert len(known) > 0.9 * len(found["components"])
