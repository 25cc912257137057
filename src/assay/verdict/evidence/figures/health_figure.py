"""The strip of a training's alarms: when which rule was at AMBER or RED, readable without colour."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from assay.core.counting import counted
from assay.core.records import HEALTH_RULES, HealthEvent, HealthLevel, HealthRule
from assay.verdict.evidence.figures.drawing import GREY, new_figure, step_axis, styled

# Far apart in lightness, and neither is the colour of a policy; hatching and letters tell them apart in grey.
COLOURS: dict[HealthLevel, str] = {"AMBER": "#F0E442", "RED": "#A50F15"}
HATCHES: dict[HealthLevel, str] = {"AMBER": "", "RED": "////"}
FOOT_CHARACTERS = 54  # of a line under the strip, as wide as the narrow figure
LETTER_SHARE = 0.02  # of the width: a span that is narrower has no room for its letter
LEAST_SHARE = 0.004  # of the width: a shorter span would not be seen
Span = tuple[float, float, HealthLevel]


def spans(events: Sequence[HealthEvent], end: float) -> dict[HealthRule, list[Span]]:
    """Return by rule when it was at AMBER or RED: from the step of one event to that of the next, or to the
    end."""
    told: dict[HealthRule, list[HealthEvent]] = {}
    for event in events:
        told.setdefault(event.rule, []).append(event)
    found: dict[HealthRule, list[Span]] = {}
    for rule, own in told.items():
        ends = [event.step for event in own[1:]] + [end]
        lasting: list[Span] = [
            (float(e.step), float(stop), e.level)
            for e, stop in zip(own, ends, strict=True)
            if e.level != "GREEN"
        ]
        if lasting:
            found[rule] = lasting
    return found


@styled
def health_strip(
    events: Sequence[HealthEvent],
    steps: int,
    unmeasured: Sequence[HealthRule] = (),
    *,
    reached: int | None = None,
) -> Figure:
    """Return a row for each rule that left GREEN, in the order in which they did, with the worst in numbers;
    of the others it is said how many there are.

    Args:
        events: The lines of health.jsonl, oldest first.
        steps: Optimizer steps of the training, planned ones while it runs.
        unmeasured: Rules that had nothing to read, said as such and not counted as green.
        reached: The newest step while the training runs: spans end there, and no rule is called green,
            because what was never measured is only known at the end. None: it has ended.
    """
    rows = len(spans(events, steps + 1 if reached is None else reached))
    figure, (axes,) = new_figure(1, 1, height=1.35 + 0.28 * max(1, rows))
    said = draw_strip(axes, events, steps, unmeasured, reached=reached)
    for row, note in enumerate(_worst(events).values()):
        axes.text(
            0.01, row - 0.5, note, va="center", fontsize=8, color=GREY, transform=axes.get_yaxis_transform()
        )
    made = counted(steps, "steps") if reached is None else f"{reached} of {counted(steps, 'steps')}"
    step_axis(axes, 5)
    axes.set_title("")
    axes.set_xlabel(f"optimizer step ({made})\n{said}")
    return figure


def _worst(events: Sequence[HealthEvent]) -> dict[HealthRule, str]:
    """Return of each rule that left GREEN its worst level, since when, and the value beside its limit."""
    found: dict[HealthRule, HealthEvent] = {}
    for event in events:
        if event.level != "GREEN" and (
            event.rule not in found or (event.level, found[event.rule].level) == ("RED", "AMBER")
        ):
            found[event.rule] = event
    return {rule: f"{event.level} from {event.step}{_limit_said(event)}" for rule, event in found.items()}


def _limit_said(event: HealthEvent) -> str:
    if event.value is None or event.threshold is None:
        return ""
    sign = ">" if event.value > event.threshold else "<" if event.value < event.threshold else "="
    return f": {event.value:.3g} {sign} {event.threshold:.3g}"


def draw_strip(
    axes: Axes,
    events: Sequence[HealthEvent],
    steps: int,
    unmeasured: Sequence[HealthRule],
    *,
    reached: int | None = None,
) -> str:
    """Draw the strip into a panel whose axis runs over the optimizer steps; return what is to be said of the
    other rules.

    `reached` as in `health_strip`; the steps after it are shaded as not made yet.
    """
    found = spans(events, steps + 1 if reached is None else reached)
    said = _rest(found, unmeasured, running=reached is not None)
    axes.set_title("Health alarms")
    step_axis(axes)
    axes.set_xlabel("")
    axes.set_xlim(0, steps + 1)
    axes.grid(visible=False, axis="y")
    if not found:
        none = "no alarm" if reached is None else "no alarm so far"
        axes.text(0.5, 0.5, none, transform=axes.transAxes, ha="center", va="center", color=GREY)
    for row, own in enumerate(found.values()):
        for span in own:
            _draw(axes, row, span, steps + 1)
    if reached is not None and reached < steps:
        axes.axvspan(reached, steps + 1, color="#EDEDED", lw=0, zorder=0, label="not made yet")
    stops = [
        (min(event.step, steps + 1), list(found).index(event.rule))
        for event in events
        if event.stop and event.rule in found
    ]
    if stops:
        axes.plot(
            *zip(*stops, strict=True),
            "X",
            color="black",
            ms=9,
            ls="",
            label="training stopped",
            clip_on=False,
            zorder=5,
        )
    axes.set_yticks(range(len(found)), list(found))
    axes.set_ylim(max(1, len(found)) - 0.4, -0.6)
    handles: list[Artist] = [
        Patch(facecolor=COLOURS[level], hatch=HATCHES[level], edgecolor="black", label=f"{level[0]}: {level}")
        for level in COLOURS
    ]
    handles += axes.get_legend_handles_labels()[0]
    axes.legend(
        handles=handles,
        ncols=min(2, len(handles)),
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0.2,
    )
    return said


def _draw(axes: Axes, row: int, span: Span, width: float) -> None:
    start, end, level = span
    length = max(end - start, LEAST_SHARE * width)
    axes.barh(
        row,
        length,
        left=start,
        height=0.72,
        color=COLOURS[level],
        hatch=HATCHES[level],
        edgecolor="black",
        linewidth=0.6,
    )
    if length > LETTER_SHARE * width:
        axes.text(
            start + length / 2,
            row,
            level[0],
            ha="center",
            va="center",
            fontsize=8.5,
            fontweight="bold",
            clip_on=True,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )


def _rest(found: dict[HealthRule, list[Span]], unmeasured: Sequence[HealthRule], *, running: bool) -> str:
    missing = [rule for rule in unmeasured if rule not in found]
    green = len(HEALTH_RULES) - len(found) - len(missing)
    if running:
        said = f"{'others: ' if found else ''}no alarm so far ({counted(green, 'rules')})"
    else:
        said = f"all {'others ' if found else ''}green ({counted(green, 'rules')})"
    return textwrap.fill(said + (f"; not measured: {', '.join(missing)}" if missing else ""), FOOT_CHARACTERS)
