"""What the player is told, on either surface. Everything comes from the briefing and the player's own
data."""

from __future__ import annotations

import json
from typing import Any, Literal

from .surfaces import bin_token, letter, z_token
from .world import spin
from .world.physics import bin_at
from .world.simulator import ColliderState, overall_z

Surface = Literal["compact", "json"]

INSTRUCTIONS = """You run a collider experiment. Somewhere on a mass axis there may be one new particle, \
visible in one
channel, or nothing at all. Decide where to spend beam time, then give a verdict. Each turn, answer with \
exactly one
JSON object and nothing else:
{"action_type":"take_data","channel":"diphoton","blocks":2}  collects data; costs its blocks
{"action_type":"calibrate","channel":"diphoton"}  measures energy scale and background; costs 1 block
{"action_type":"scan"}  tells the global significance of the best excess
{"action_type":"fit","channel":"diphoton"}  fits mass and events of the best excess
{"action_type":"angles","channel":"diphoton"}  measures its decay angles, hence its spin
{"action_type":"claim","channel":"diphoton","mass_gev":150.0,"spin":0,"confidence":0.9}  ends: a new particle
{"action_type":"no_signal","confidence":0.9}  ends: nothing new
The spin of a claim is 0, 1, 2 or null. A wrong claim costs more than a missed particle; a discovery needs the
required global significance. Saved blocks and an honest confidence (0 to 1) count. Known particles are not
new. Early excesses may be fluctuations."""


def compact_state(state: ColliderState) -> str:
    """Return blocks left, then each channel with data, strongest excess first.

    A channel is told as its letter, best bin, + if that excess is globally significant, local significance in
    half sigmas, blocks, and k if calibrated.
    """
    words, channels, seen = [f"L{state.blocks_left}"], state.briefing.channels, len(state.looked_at())
    told = [
        (-data.local_z, place, data)
        for place, data in enumerate(state.data)
        if data.blocks or data.calibrated
    ]
    # A channel's bin stands right behind its letter, here and in a claim: reading it off is copying what came
    # next.
    for _, place, data in sorted(told):
        mark = "k" if data.calibrated else ""
        if data.blocks:
            proof = "+" if overall_z(data.local_z, seen) >= state.briefing.required_z else ""
            found = f"{letter(channels[place])}{bin_token(data.peak_bin)}{proof}{z_token(data.local_z)}"
            words.append(f"{found}{data.blocks}{mark}")
        elif mark:
            words.append(f"{letter(channels[place])}0{mark}")
    return " ".join(words)


def _compact_opening(state: ColliderState) -> str:
    briefing = state.briefing
    words = [
        "".join(letter(name) for name in briefing.channels),
        z_token(briefing.required_z),
        f"t{state.max_turns}",
    ]
    words += [
        f"x{letter(name)}{bin_token(bin_at(briefing.m0_gev, mass))}" for name, mass in briefing.known_peaks()
    ]
    return " ".join([*words, compact_state(state)])


def _compact_observation(state: ColliderState) -> str:
    notice = state.notice
    name = "" if notice.place is None else letter(state.briefing.channels[notice.place])
    prefix = ""
    if notice.kind == "failed":
        prefix = "? "
    elif notice.kind == "refused":
        prefix = "! "
    elif notice.kind == "scan":
        prefix = f"s{name}{z_token(notice.values[0])} "
    elif notice.kind == "fit":
        prefix = f"f{name}{bin_token(bin_at(state.briefing.m0_gev, notice.values[0]))} "
    elif notice.kind == "angles":
        prefix = f"a{name}{int(notice.values[0])}{z_token(notice.values[1])} "
    return prefix + compact_state(state)


def _json_state(state: ColliderState) -> dict[str, Any]:
    channels: dict[str, Any] = {}
    for place, data in enumerate(state.data):
        told: dict[str, Any] = {}
        if data.blocks:
            mass = round(data.peak_mass_gev, 2)
            told = {
                "blocks": data.blocks,
                "local_significance": round(data.local_z, 2),
                "best_mass_gev": mass,
            }
            told["significant"] = state.is_significant(place)
        if data.calibrated:
            told["calibrated"] = True
        if told:
            channels[state.briefing.channels[place]] = told
    return {"blocks_left": state.blocks_left, "turns_left": state.turns_left, "channels": channels}


def _json_opening(state: ColliderState) -> str:
    briefing = state.briefing
    public = {
        "mass_axis_gev": [briefing.m0_gev, 2.0 * briefing.m0_gev],
        "channels": list(briefing.channels),
        "known_particles": [{"channel": name, "mass_gev": mass} for name, mass in briefing.known_peaks()],
        "required_global_significance": briefing.required_z,
        "blocks_left": state.blocks_left,
        "turns_left": state.turns_left,
    }
    return f"{INSTRUCTIONS}\n\n{json.dumps(public, allow_nan=False)}"


def _json_notice(state: ColliderState) -> dict[str, Any]:
    notice = state.notice
    if notice.kind in ("failed", "refused"):
        return {notice.kind: notice.reason}
    if notice.place is None or notice.kind == "data":
        return {}
    channel, values = state.briefing.channels[notice.place], notice.values
    if notice.kind == "calibrated":
        told: dict[str, Any] = {
            "energy_scale_shift": round(values[0], 4),
            "background_shift": round(values[1], 4),
        }
    elif notice.kind == "scan":
        told = {"global_significance": round(values[0], 2)}
    elif notice.kind == "fit":
        told = {
            "mass_gev": round(values[0], 2),
            "mass_error_gev": round(values[1], 2),
            "events": round(values[2], 1),
        }
    else:
        predictions = {str(j): round(spin.moment(channel, j), 3) for j in spin.allowed(channel)}
        told = {
            "mean_cos2": round(values[2], 3),
            "error": round(values[3], 3),
            "predicted_by_spin": predictions,
        }
    return {notice.kind: {"channel": channel, **told}}


def opening(state: ColliderState, surface: Surface) -> str:
    """Return the first user message."""
    return _compact_opening(state) if surface == "compact" else _json_opening(state)


def observation(state: ColliderState, surface: Surface) -> str:
    """Return what the player is told after a turn that did not end the episode."""
    if surface == "compact":
        return _compact_observation(state)
    return json.dumps(_json_notice(state) | _json_state(state), allow_nan=False)
