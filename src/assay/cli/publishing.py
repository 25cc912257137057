"""Hand a policy or a package on: merge, push, sign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.naming import name_settings_of


def merge(
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder to write; .scratch/merged if not given.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Another project's folder, or an unpacked package.")
    ] = None,
) -> None:
    """Write base and adapter as one plain model, if its logits and greedy tokens agree with theirs
    (package.parity)."""
    from assay.tools.publish import merge as tool

    if run is not None:
        name_settings_of(run)
    tool.run(Path.cwd(), out=out, run=run)


def push(
    repo_id: Annotated[
        str, typer.Argument(metavar="REPO_ID", help="owner/name of a model repository on the hub.")
    ],
    package: Annotated[Path, typer.Option(metavar="FILE", help="Package to send.")] = Path(
        "dist/assay-package.tar"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be sent; use no network.")
    ] = False,
    private: Annotated[
        bool | None,
        typer.Option("--private/--public", help="Visibility; a new repository is private if not given."),
    ] = None,
    revision: Annotated[str, typer.Option(help="Branch to commit to; made if it is not there.")] = "main",
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove all other files of the repository.")
    ] = False,
) -> None:
    """Send a verified package to a Hugging Face repository in one commit, and look at what arrived."""
    from assay.tools.publish import push as tool

    tool.run(package, repo_id, dry_run=dry_run, private=private, revision=revision, replace=replace)


def wandb(
    package: Annotated[Path, typer.Option(metavar="FILE", help="Package to send, a .tar.")] = Path(
        "dist/assay-package.tar"
    ),
) -> None:
    """Log a verified package as an artifact of Weights & Biases; only if WANDB_PROJECT is set."""
    from assay.tools.publish import push_wandb as tool

    tool.run(package)


def sign(
    package: Annotated[Path, typer.Argument(metavar="PACKAGE", help="A .tar or .tar.gz.")],
    key: Annotated[Path, typer.Option(metavar="KEY.pem", help="Your private elliptic-curve key.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="<package>.sig in this folder if not given.")
    ] = None,
) -> None:
    """Sign a package with a key of your own; the signature lies beside it, and verify --signature checks
    it."""
    from assay.tools.publish import sign as tool

    tool.run(package, key, out)
