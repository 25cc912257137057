"""Figures inside a page: few bytes, ids and classes of their own, colours that follow light and dark."""

from __future__ import annotations

import colorsys
import re
from xml.etree import ElementTree

from assay.errors import EvidenceError
from assay.evidence.hostile_text import visible
from assay.evidence.page.paths import compact, joined, number, straightened
from assay.evidence.page.shell import escaped

_DROPPED = ("metadata", "style", "title", "desc")
_FONT = re.compile(r"font-family:[^;]*;?\s*|font-style: normal;?\s*")
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]+)\)|^#(.+)$")
_RULES = (
    'figure svg{fill:var(--ink);font-family:"DejaVu Sans",Verdana,system-ui,sans-serif}'  # no fill means black
    "figure svg *{stroke-linejoin:round;stroke-linecap:butt}"
)


def darkened(colour: str) -> str:
    """Return the colour that stands for `colour` on a dark page: greys change places, others become light enough.

    >>> darkened("#ffffff"), darkened("#000000"), darkened("#0072b2")
    ('#161616', '#e8e8e8', '#2eb4ff')
    """
    red, green, blue = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    hue, light, strength = colorsys.rgb_to_hls(red, green, blue)
    grey = max(red, green, blue) - min(red, green, blue) < 0.05
    light = 0.91 - light * (0.91 - 0.0863) if grey else max(light, 0.59)
    return "#" + "".join(f"{round(255 * part):02x}" for part in colorsys.hls_to_rgb(hue, light, strength))


class Figures:
    """Turns SVG files of ours into figures of one page, and holds the style that all of them share."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}
        self._colours: dict[str, str] = {}
        self._count = 0

    def inline(self, svg: bytes, caption: str) -> str:
        """Return one figure as markup, with its caption as its name for a reader that does not see it.

        Raises:
            EvidenceError: the bytes are not an SVG (the caller's fault).
        """
        text = visible(svg.decode("utf-8", errors="backslashreplace"))
        try:
            root = ElementTree.fromstring(text[max(0, text.find("<svg")) :])
        except ElementTree.ParseError as error:
            raise EvidenceError("an SVG file", found=str(error), where="page.svg", fix="draw the figure anew") from None
        self._count += 1
        ids: dict[str, str] = {}
        for element in root.iter():
            for value in element.attrib.values():
                for found in _REFERENCE.finditer(value):
                    ids.setdefault(found[1] or found[2], f"f{self._count}-{len(ids)}")
        box = root.get("viewBox", "0 0 648 432")
        width = round(float(box.split()[2]) * 4 / 3)
        inside = "".join(self._element(child, ids, places=1) for child in root)
        head = f'<svg viewBox="{escaped(box)}" width="{width}" role="img" aria-label="{escaped(caption)}">'
        return f"{head}{inside}</svg>"

    def style(self) -> str:
        """Return the rules that the figures of this page need, in light and in dark."""
        light = "".join(f"{name}:{colour};" for colour, name in self._colours.items())
        dark = "".join(f"{name}:{darkened(colour)};" for colour, name in self._colours.items())
        rules = "".join(f".{name}{{{text}}}" for text, name in self._classes.items())
        return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{_RULES}{rules}\n"

    def _element(self, element: ElementTree.Element, ids: dict[str, str], places: int) -> str:
        tag = element.tag.rpartition("}")[2]
        if tag in _DROPPED:
            return ""
        deeper = 0 if tag == "pattern" else 2 if tag in ("defs", "clipPath") else places
        inside = "".join(self._element(child, ids, deeper) for child in element)
        if tag in ("text", "tspan"):
            inside = escaped(element.text or "") + inside
        attributes = self._attributes(element, ids, places)
        if tag in ("g", "defs") and (not inside or (tag == "g" and not attributes)):
            return inside
        body = f"{tag}{attributes}"
        return f"<{body}>{inside}</{tag}>" if inside else f"<{body}/>"

    def _attributes(self, element: ElementTree.Element, ids: dict[str, str], places: int) -> str:
        found, rules = "", element.get("style", "")
        for key, value in element.attrib.items():
            name = key.rpartition("}")[2]
            if name == "id":
                found += f' id="{ids[value]}"' if value in ids else ""
            elif name in ("fill", "stroke", "stroke-width"):
                rules += f";{name}:{value}"
            elif name == "d":
                path = compact(value, places) if places else compact(straightened(value), 1)  # a dot of a hatch has corners
                found += f' d="{escaped(path)}"'
            elif name == "href":
                target = f"#{ids[value[1:]]}" if value.startswith("#") else value if value.startswith("data:image/png") else "#"
                found += f' href="{escaped(target)}"'
            elif name != "style" and not (name == "transform" and value.startswith(("rotate(-0 ", "rotate(0 "))):
                found += f' {name}="{escaped(_short(name, self._renamed(value, ids), places))}"'
        kind = self._rules(rules, ids)
        return found + (f' class="{kind}"' if kind else "")

    @staticmethod
    def _renamed(value: str, ids: dict[str, str]) -> str:
        return re.sub(r"url\(#([^)]+)\)", lambda found: f"url(#{ids[found[1]]})", value)

    def _rules(self, value: str, ids: dict[str, str]) -> str:
        text = self._renamed(_FONT.sub("", value).strip().rstrip(";"), ids)
        text = re.sub(r"\s*([:;,])\s*", r"\1", text).replace("stroke-linejoin:round", "").strip(";").replace(";;", ";")
        text = re.sub(r"(stroke-(?:width|dasharray|dashoffset|miterlimit):)([\d.,]+)", _rounded, text)
        if not text:
            return ""
        colours = self._colours
        text = _COLOUR.sub(lambda c: f"var({colours.setdefault(c[0].lower(), f'--c{len(colours)}')})", text)
        return self._classes.setdefault(text, f"s{len(self._classes)}")


def _rounded(found: re.Match[str]) -> str:
    return found[1] + ",".join(number(float(text), 2) for text in found[2].split(",") if text)


def _short(name: str, value: str, places: int) -> str:
    if name in ("x", "y", "width", "height", "cx", "cy", "r") and re.fullmatch(r"-?[\d.]+", value):
        return number(float(value), places)
    turned = re.fullmatch(r"(rotate|translate)\(([-\d.]+)[ ,]+([-\d.]+)(?:[ ,]+([-\d.]+))?\)", value)
    if name == "transform" and turned is not None:
        return f"{turned[1]}({joined([number(float(text), places) for text in turned.groups()[1:] if text is not None])})"
    return value
