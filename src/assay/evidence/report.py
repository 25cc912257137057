"""report.html: one offline page, verdict first. Every text is escaped; no script, no network."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence

import pandas as pd  # type: ignore[import-untyped,unused-ignore]

from assay.evidence.claim import Claim
from assay.evidence.hostile_text import visible
from assay.evidence.trajectories import RIGHT, Pair, deciding_turn, prompt_head, shortened, summary_rows
from assay.evidence.wording import (
    MISSING,
    NO_INTERVAL,
    counted,
    difference_text,
    interval_text,
    missing_interval_said,
    p_number,
    p_text,
    percent,
    split_word,
)
from assay.records import Episode

LONGEST_GIVEN = 2000  # characters of a prompt or a truth: the page has a size limit
_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--paper:#fff;--soft:#f3f3f1;--line:#d5d5d0;--good:#00603f;--bad:#a02c00}
@media(prefers-color-scheme:dark){
:root{--ink:#e6e6e3;--paper:#161616;--soft:#222;--line:#444;--good:#5fd3a5;--bad:#ff9a6b}}
body{margin:0 auto;max-width:70rem;padding:1.2rem;background:var(--paper);color:var(--ink)}
body{font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.5rem}h2{font-size:1.2rem;border-top:1px solid var(--line);padding-top:.8rem;margin-top:2rem}
.verdict{font-weight:700;font-size:1.3rem}.good{color:var(--good)}.bad{color:var(--bad)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{border:1px solid var(--line);padding:.25rem .55rem;text-align:left;vertical-align:top}th{background:var(--soft)}
figure{margin:1rem 0}figure svg{max-width:100%;height:auto;background:#fff;border-radius:4px}
figcaption{font-size:.88rem}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);padding:.5rem;margin:.3rem 0}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:1rem}@media(max-width:50rem){.pair{grid-template-columns:1fr}}
.turn{border-left:3px solid var(--line);padding-left:.6rem;margin:.6rem 0}.deciding{border-color:var(--bad)}
code{overflow-wrap:anywhere}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def _text(value: object) -> str:
    return html.escape(visible(str(value)), quote=True)


def html_table(frame: pd.DataFrame, caption: str) -> str:
    """Return a frame as an HTML table with every cell escaped; missing cells say so.

    >>> "&lt;b&gt;" in html_table(pd.DataFrame({"a": ["<b>"]}), "c")
    True
    """
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in frame.columns)
    body = ""
    for row in frame.itertuples(index=False, name=None):
        cells = (MISSING if cell is None or cell is pd.NA or cell != cell else cell for cell in row)
        body += "<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>\n"
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{_text(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
    )


def inline_svg(svg: bytes, name: str, caption: str) -> str:
    """Return an SVG of ours as a figure; its ids get the figure's name, because ids are shared by the whole page."""
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    prefix = re.sub(r"\W", "-", name)
    for pattern in (r'(\bid=")([^"]+")', r'(href="#)([^"]+")', r"(url\(#)([^)]+\))"):
        text = re.sub(pattern, rf"\g<1>{prefix}-\g<2>", text)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{_text(caption)}" ', 1)
    return f"<figure>{text}<figcaption>{_text(caption)}</figcaption></figure>"


def _claim_frame(claim: Claim) -> pd.DataFrame:
    clusters = counted(claim.n_clusters, claim.plan.cluster_name)
    seeds = ", ".join(map(str, claim.training_seeds))
    rows = [
        ("before, %", interval_text(claim.before, rate=True)),
        ("after, %", interval_text(claim.after, rate=True)),
        ("difference, points", difference_text(claim.difference, rate=True)),
        ("p, two-sided sign flips over clusters", p_number(claim.p)),
        ("cross-check, studentised cluster bootstrap, points", difference_text(claim.cross_check, rate=True)),
        ("counts", f"{clusters}, {counted(claim.n_items, 'items')}, K = {claim.draws}"),
        ("training seeds" if len(claim.training_seeds) > 1 else "training seed", seeds or "none"),
        ("smallest effect that matters, points", f"{claim.plan.smallest_effect_points:g}"),
        ("smallest detectable effect, points", _number(claim.smallest_detectable_points)),
    ]
    if claim.gain_split is not None:
        split = claim.gain_split
        parsed = f"{percent(split.parsed_before)} to {percent(split.parsed_after)} % of episodes parse throughout"
        rows.append(("gain from parsing, points", f"{difference_text(split.parse_part, rate=True)} ({parsed})"))
        rows.append(("gain from being right, points", difference_text(split.correct_part, rate=True)))
    if claim.tokens_per_completion is not None:
        tokens = claim.tokens_per_completion
        change = (
            f"{_number(tokens.before)} to {_number(tokens.after)}, {difference_text(tokens.difference, rate=False)}"
        )
        rows.append(("tokens per completion", change))
    if claim.items_changed is not None:
        rows.append(("items", ", ".join(f"{n} {name}" for name, n in claim.items_changed.items())))
    return pd.DataFrame(rows, columns=["quantity", "value"])


def _number(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"


def _checks_frame(claim: Claim) -> pd.DataFrame:
    rows = []
    for name, found in claim.secondary.items():
        gap = difference_text(found.difference, rate=name.endswith("_rate"))
        rows.append((name, "confirmatory, Holm", gap, p_text(found.p_holm)))
    for guard in claim.guardrails:
        gap = difference_text(guard.difference, rate=guard.measure.endswith("_rate"))
        rows.append((guard.measure, f"guardrail, loss under {guard.margin:g}", gap, guard.outcome))
    if claim.control is not None:
        gap = difference_text(claim.control.difference, rate=True)
        rows.append(("base against base", claim.control.kind, gap, f"{claim.control.verdict}: {claim.control.reason}"))
    return pd.DataFrame(rows, columns=["measure", "role", "difference", "outcome"])


def _episode(name: str, episode: Episode) -> str:
    blocks = [f"<h4>{name}</h4>"]
    last = deciding_turn(episode)
    for k, turn in enumerate(episode.turns):
        deciding = k == last
        words = f"Turn {k + 1} of {len(episode.turns)}, {counted(turn.n_tokens, 'tokens')}, {turn.outcome}"
        words += f", failure: {turn.failure}" if turn.failure is not None else ""
        words += ", deciding" if deciding else ""
        shown = turn.completion if deciding else shortened(turn.completion)
        block = f"<p>{_text(words)}</p><pre>{_text(shown)}</pre>"
        if turn.observation is not None:
            block += f"<p>Observation</p><pre>{_text(shortened(turn.observation))}</pre>"
        blocks.append(f'<div class="turn{" deciding" if deciding else ""}">{block}</div>')
    if not episode.turns:
        blocks.append("<p>No turn was played.</p>")
    return f"<div>{''.join(blocks)}<p>Ending: {_text(episode.ending)}</p></div>"


def _given(pair: Pair, prompt: str | None, truth: str | None) -> str:
    """Return what both episodes were asked and what is right, where that is known."""
    known = ((prompt_head(pair), prompt), (RIGHT, truth))
    return "".join(f"<p>{_text(h)}</p><pre>{_text(shortened(t, LONGEST_GIVEN))}</pre>" for h, t in known if t is not None)


def _pair(pair: Pair, given: str) -> str:
    facts = pd.DataFrame(summary_rows(pair), columns=["fact", "before", "after"])
    head = _text(f"{pair.reason}: item {pair.before.item_id[:16]}, draw {pair.before.draw}")
    both = _episode("Before", pair.before) + _episode("After", pair.after)
    table = html_table(facts, "both episodes")
    return f'<details><summary>{head}</summary>{given}{table}<div class="pair">{both}</div></details>'


def report_html(
    claim: Claim,
    *,
    title: str,
    digests: Mapping[str, str],
    figures: Mapping[str, tuple[bytes, str]],
    tables: Mapping[str, pd.DataFrame],
    run: pd.DataFrame | None = None,
    pairs: Sequence[Pair] = (),
    prompts: Mapping[str, str] | None = None,
    truths: Mapping[str, str] | None = None,
    limits: Sequence[str] = (),
    verify_command: str = "assay verify ARCHIVE",
) -> str:
    """Return the whole page; `figures` maps a name to (SVG bytes from `render`, caption), `tables` captions to frames.

    `digests` are further rows of the table of what was measured, by their labels. `prompts` and `truths` are by item id and
    shown above the episodes of `pairs`. Order: verdict and scope, what was `run`, integrity, before and after, controls,
    figures, tables, episodes, limits, verification.
    """
    tone = {"IMPROVED": "good", "REGRESSED": "bad", "NOT EVALUABLE": "bad"}.get(claim.verdict, "")
    integrity = {"plan (digest of its content; sha256sum of the file gives another)": claim.plan_digest, **digests}
    integrity["suite"] = claim.plan.suite_digest
    integrity |= {"policy before": claim.before_policy, "policy after": claim.after_policy}
    listed = pd.DataFrame(list(integrity.items()), columns=["what", "sha256 or digest"])
    warnings = "".join(f"<li>{_text(warning)}</li>" for warning in claim.warnings)
    split = split_word(claim.split).capitalize()
    scope = f"{split}, {claim.decoding}, checkpoint rule: {claim.plan.checkpoint_rule}. Reason: {claim.reason}."
    body = [
        f'<h1>{_text(title)}</h1><p class="verdict {tone}">{_text(claim.verdict)}</p><p>{_text(claim.sentence)}</p>',
        f"<p>{_text(scope)}</p>" + (f"<ul>{warnings}</ul>" if warnings else ""),
        *([] if run is None else ["<h2>What was run</h2>" + html_table(run, "from settings and the records of the stages")]),
        "<h2>Integrity</h2>" + html_table(listed, "what these numbers were measured on"),
    ]
    if claim.difference is not None:
        body.append(
            "<h2>Before and after</h2>" + html_table(_claim_frame(claim), "the claim in numbers, 95 % intervals")
        )
        body.append("<h2>Controls and guardrails</h2>" + html_table(_checks_frame(claim), "beside the primary metric"))
    body += [inline_svg(svg, name, caption) for name, (svg, caption) in figures.items()]
    body += [html_table(frame, caption) for caption, frame in tables.items()]
    if any(NO_INTERVAL in block for block in body):
        body.append(f"<p>{_text(missing_interval_said(claim.plan.cluster_name))}</p>")
    if pairs:
        given = [_given(p, *((known or {}).get(p.before.item_id) for known in (prompts, truths))) for p in pairs]
        shown = "".join(_pair(pair, words) for pair, words in zip(pairs, given, strict=True))
        body.append("<h2>Episodes</h2>" + shown)
    points = "".join(f"<li>{_text(limit)}</li>" for limit in limits) or "<li>None were stated.</li>"
    body.append(f"<h2>Limits</h2><ul>{points}</ul><h2>Verify</h2><pre>{_text(verify_command)}</pre>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )
