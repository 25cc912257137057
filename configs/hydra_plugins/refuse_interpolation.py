"""Refuses interpolation under `dvc exp run`, where DVC composes params.yaml by Hydra before a stage begins.

DVC finds it by hydra.plugins_path in .dvc/config. No hook of Hydra is told what `-S` says, so DVC's
command line is read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class RefuseInterpolation(SearchPathPlugin):
    """Looks before anything is composed."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Raise what DVC shows as one message, and leave the search path as it is."""
        if "dvc.cli" not in sys.modules:  # assay looks by itself
            return
        # Here, since Hydra goes on without a plugin that cannot be imported.
        from dvc.exceptions import DvcException

        from assay.core.config.interpolation import refuse_in_files, refuse_in_overrides
        from assay.core.errors import ConfigError

        try:
            refuse_in_overrides(sys.argv[1:])
            for each in search_path.get_path():
                if each.provider == "main":
                    refuse_in_files(Path(each.path.removeprefix("file://")))
        except ConfigError as error:
            raise DvcException(str(error)) from None
