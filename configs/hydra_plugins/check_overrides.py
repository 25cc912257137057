"""Looks at what `dvc exp run -S` sets before DVC composes params.yaml of it by Hydra, and a stage begins.

DVC finds it by hydra.plugins_path in .dvc/config. No hook of Hydra is told what `-S` says, so DVC's
command line is read, by DVC's own parser.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class CheckOverrides(SearchPathPlugin):
    """Refuses an interpolation, a setting that there is not, and a value that it cannot have."""

    looks = False  # now: what looks composes too

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Raise what DVC shows as one message, and leave the search path as it is."""
        if "dvc.cli" not in sys.modules or CheckOverrides.looks:  # assay looks by itself
            return
        # Here, since Hydra goes on without a plugin that cannot be imported.
        from dvc.cli import parse_args
        from dvc.exceptions import DvcException

        from assay.core.config.composition import check_overrides
        from assay.core.config.interpolation import refuse_in_files, refuse_in_overrides
        from assay.core.errors import ConfigError

        given = getattr(parse_args(sys.argv[1:]), "set_param", None) or []
        CheckOverrides.looks = True
        try:
            refuse_in_overrides(given)
            for each in search_path.get_path():
                if each.provider == "main":
                    configs = Path(each.path.removeprefix("file://"))
                    refuse_in_files(configs)
                    check_overrides(configs.parent, given)
        except ConfigError as error:
            raise DvcException(str(error)) from None
        finally:
            CheckOverrides.looks = False
