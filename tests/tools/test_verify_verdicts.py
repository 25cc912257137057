"""What `assay verify` says first and last, and its exit code, tell what was shown from what was not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli import app
from assay.core.errors import AssayError
from assay.package import checking as tool
from assay.package.checking import VerifyRequest
from assay.package.verification.checks import CODES, Check, Level, Outcome, left_open, verdict_of
from assay.stages.packing.archive import sealed, unpack, write_tar
from assay.verdict.judge.verdict import version_here
from tests.tools.judged_files import as_csv, results


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of a judgement, which is the quickest to check."""
    folder = tmp_path_factory.mktemp("judged")
    files = [as_csv(folder / f"{arm}.csv", results(arm, rate)) for arm, rate in (("a", 0.3), ("b", 0.8))]
    assert CliRunner().invoke(app, ["judge", *map(str, files), "--out", str(folder / "out")]).exit_code == 0
    return folder / "out/assay-package.tar"


def told(package: Path, asked: VerifyRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """Return the exit code and the lines."""
    lines = list[str]()
    monkeypatch.setattr(tool, "say", lines.append)
    return tool.run(package, asked, None), lines


def forged(package: Path, folder: Path, name: str, old: str, new: str) -> Path:
    """Return the package of somebody who edits a file and makes the list of sums anew."""
    unpack(package, folder / "unpacked")
    files = {p.relative_to(folder / "unpacked").as_posix(): p for p in (folder / "unpacked").rglob("*")}
    members = {each: p.read_bytes() for each, p in files.items() if p.is_file() and each != "SHA256SUMS"}
    assert old.encode() in members[name]
    members[name] = members[name].replace(old.encode(), new.encode(), 1)
    write_tar(folder / "forged.tar", sealed(dict(members)))
    return folder / "forged.tar"


@pytest.mark.long
def test_only_the_published_digest_makes_a_package_pass_in_full(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, lines = told(package, VerifyRequest(), monkeypatch)
    words = "HOLDS TOGETHER, ORIGIN NOT SHOWN: "
    assert code == 9 and lines[0].startswith(words) and lines[-1].startswith(words)
    identity = lines[-1].split("package ")[1].split(",")[0]
    assert "120 rows before " in lines[-1] and "120 rows after " in lines[-1] and "plan none" in lines[-1]
    published = tmp_path / "assay-package.sha256"
    published.write_text(f"{identity}  assay-package/SHA256SUMS\n", encoding="utf-8")
    for given in (identity, identity.upper(), str(published)):
        code, lines = told(package, VerifyRequest(sha256=given), monkeypatch)
        assert code == 0 and lines[0].startswith("PASSED: it is the package that was published"), lines
        assert "No package of this kind can show: grading, sources" in lines[0]
    assert told(package, VerifyRequest(sha256="0" * 64), monkeypatch)[0] == 1
    for given in ("0" * 63, str(package), ""):
        with pytest.raises(AssayError, match=r"64 .*digits"):
            told(package, VerifyRequest(sha256=given), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("report.html", "points", "points of 98.9 %"),
        ("report.html", "</h1>", "</h1><p>Confirmed by an independent laboratory.</p>"),
        ("report.html", "<style>", "<script>document.title = 1</script><style>"),
        ("summary.md", "points", "points (98.9 %)"),
        ("README.md", "Reason", "An independent laboratory agrees. Reason"),
    ],
)
def test_other_code_excuses_no_number_and_no_sentence_of_a_page(
    name: str, old: str, new: str, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lie = forged(package, tmp_path, name, old, new)
    assert told(lie, VerifyRequest(), monkeypatch)[0] == 1
    code, lines = told(lie, VerifyRequest(other_code=True), monkeypatch)
    assert code in (1, 10)
    assert lines[0].startswith("FAILED") if code == 1 else lines[0].startswith(f"NOT CHECKED: {name}")


def test_a_verdict_is_as_much_as_the_weakest_check_says_and_names_what_is_left_open() -> None:
    def check(level: Level, name: str, outcome: Outcome, *left: str) -> Check:
        return Check(level=level, name=name, outcome=outcome, found="", left=left)

    digest, holds = check("V0", "digest", "passed"), check("V1", "claim", "passed")
    code = check("V3", "code", "not checked", "src/assay")
    pages = check("V1", "pages", "not checked", "report.html", "README.md")
    wanted = {
        (digest, holds): 0,
        (digest, holds, check("V4", "play again", "not asked"), check("V2", "grading", "not shown")): 0,
        (check("V0", "signature", "passed"), holds): 0,
        (check("V1", "digest", "passed"), holds): 9,
        (holds, check("V4", "play again", "passed"), check("V5", "train again", "passed")): 9,
        (digest, holds, code): 10,
        (digest, holds, check("V4", "play again", "not checked")): 10,
        (digest, check("V3", "code", "failed"), pages): 1,
        (check("V0", "digest", "not asked"),): 1,
    }
    assert {checks: CODES[verdict_of(checks)] for checks in wanted} == wanted
    assert left_open([code, holds, pages, pages]) == ["report.html", "README.md", "src/assay"]
    run_named_so = [check("V1", "digest", "passed"), check("V3", "signature", "passed"), code]
    said = next(tool.verification(Path("seeds.tar"), None, run_named_so).lines())
    assert "ORIGIN NOT SHOWN" in said and "published" not in said


@pytest.mark.long
def test_other_code_is_no_less_where_the_version_is_the_same_and_is_named_where_it_is_not(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(package, VerifyRequest(other_code=True), monkeypatch)[0] == 9
    older = forged(package, tmp_path, "judged.json", f'"assay":"{version_here()}"', '"assay":"0.0.1"')
    for other_code, said in ((False, "Fix: .* --other-code"), (True, r"accepted \(--other-code\)")):
        lines = told(older, VerifyRequest(other_code=other_code), monkeypatch)[1]
        (code,) = (line for line in lines if line.startswith("V3") and " code: " in line)
        assert re.search(f"judged by version 0.0.1, this is {version_here()}.*{said}", code), code
