"""Is a training still well? The rules of `assay runs health`, on a log or while the training runs.

    >>> from assay.health import Monitor
    >>> monitor = Monitor()
    >>> for step in range(40):
    ...     monitor.add({"step": step, "reward": step / 40, "loss": float("nan") if step == 30 else 0.1})
    >>> [(alarm.rule, alarm.level, alarm.since) for alarm in monitor.new_alarms()]
    [('non_finite', 'RED', 30)]

`callbacks=[HealthCallback()]` does this inside any trainer of transformers or TRL. The rules are functions of
the log alone: neither torch nor a project is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.core.faces import load_lazily

if TYPE_CHECKING:
    from assay.health.callback import HealthCallback
    from assay.health.logs.records import JudgedLog as Health
    from assay.health.logs.records import LogFinding as Alarm
    from assay.health.monitor import Monitor, examine

__all__ = ["Alarm", "Health", "HealthCallback", "Monitor", "examine"]
__getattr__ = load_lazily(
    __name__,
    {
        "Alarm": "assay.health.logs.records:LogFinding",
        "Health": "assay.health.logs.records:JudgedLog",
        "HealthCallback": "assay.health.callback:HealthCallback",
        "Monitor": "assay.health.monitor:Monitor",
        "examine": "assay.health.monitor:examine",
    },
)
