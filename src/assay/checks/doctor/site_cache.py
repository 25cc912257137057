"""Who else may write in DVC's site cache, from which DVC unpickles: whoever does has his code run.

Source: https://dvc.org/doc/user-guide/project-structure/configuration (core.site_cache_dir)
"""

from __future__ import annotations

import configparser
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from assay.checks.findings import DoctorCheck, Finding

VARIABLE = "DVC_SITE_CACHE_DIR"
SHARED = Path("/var/tmp/dvc")  # DVC's own choice on Linux
_FILES = (".dvc/config", ".dvc/config.local")  # the later one counts


def site_cache_of(root: Path, environment: Mapping[str, str]) -> tuple[Path, str]:
    """Return DVC's site cache of a project, called in the project's folder, and what says so."""
    if environment.get(VARIABLE):
        return root / environment[VARIABLE], VARIABLE
    found = SHARED, "DVC's own choice"
    for name in _FILES:
        settings = configparser.ConfigParser(interpolation=None, strict=False)
        settings.read(root / name, encoding="utf-8")
        if value := settings.get("core", "site_cache_dir", fallback=""):
            found = root / value, f"{name}, core.site_cache_dir"
    return found


def site_cache_finding(root: Path, environment: Mapping[str, str] | None = None) -> Finding:
    """Return whether only the user may write where DVC unpickles from."""
    folder, where = site_cache_of(root, os.environ if environment is None else environment)
    check = DoctorCheck("DVC's site cache", "a folder that no other user may write in", where)
    fix = f"export {VARIABLE}={root.resolve() / '.dvc-site'}, and delete {folder}"
    for path in (folder, folder / "repo"):
        found = path.stat() if path.is_dir() else None
        if path == SHARED or (found and found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX):
            return check.warning(f"{path}, which every user may write in", fix)
        if found and found.st_uid != os.getuid():
            return check.warning(f"{path}, which is another user's", fix)
    return check.ok(str(folder))
