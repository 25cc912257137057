"""What mkdocs.yml asks for while the site is built: report and reference are added, and links that leave
docs/ lead to the repository."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
REPORT = "evidence/results/report/report.html"
LIBRARIES = ("verdict", "health", "rollout", "package")
REFERENCE = "# Reference\n\nWhat the libraries offer, from their docstrings. [api.md](api.md) uses them.\n"
LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]*)(#[^)\s]*)?\)")


def moved_link(page: str, link: str, repository: str) -> str:
    """Return where a link of a page leads on the site: within docs/, to the report, or to the repository.

    >>> moved_link("docs/a/b.md", "../c.md", "https://x/y"), moved_link("docs/b.md", "../run", "https://x/y")
    ('../c.md', 'https://x/y/blob/main/run')
    >>> moved_link("docs/a/b.md", "../../evidence/results/report/report.html", "https://x/y")
    '../report.html'
    """
    target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    if target.startswith("docs/"):
        return link
    if target == REPORT:
        return posixpath.relpath("docs/report.html", posixpath.dirname(page))
    if not (ROOT / target).exists():
        return link  # which the strict build then refuses
    return f"{repository}/{'tree' if (ROOT / target).is_dir() else 'blob'}/main/{target}"


def on_files(files: Any, config: Any) -> Any:
    """Add the report of the last run, and a page that names the libraries."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "report.html", abs_src_path=str(ROOT / REPORT)))
    blocks = (f"## assay.{name}\n\n::: assay.{name}\n" for name in LIBRARIES)
    files.append(File.generated(config, "reference.md", content="\n".join([REFERENCE, *blocks])))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Have every link lead somewhere on the site or in the repository."""
    where, repository = f"docs/{page.file.src_uri}", config.repo_url.rstrip("/")
    return LINK.sub(lambda found: f"]({moved_link(where, found[1], repository)}{found[2] or ''})", markdown)
