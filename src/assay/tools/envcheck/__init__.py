"""Is a task fit to be trained on? 27 checks before it costs a training."""

from assay.tools.envcheck.command import examined as examined
from assay.tools.envcheck.command import run as run
