"""What a chart says and shows, read back from its SVG."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

from mathlib.show.kit import letters

SPACE = "{http://www.w3.org/2000/svg}"
Place = tuple[float, float, float, float]  # x, y, width, height


def widths(html: object) -> list[ET.Element]:
    """Every drawing inside of some HTML, or of what shows itself as HTML: wide, narrow."""
    text = html if isinstance(html, str) else html._repr_html_()  # type: ignore[attr-defined]
    found = re.findall("<svg.*?</svg>", text, re.DOTALL)
    assert found, f"no chart in {text[:200]}"
    return [ET.fromstring(one) for one in found]


def drawn(html: object) -> ET.Element:
    """The wide one of its first picture."""
    return widths(html)[0]


def words(chart: ET.Element) -> list[str]:
    """Everything that is written in it, from the first to the last."""
    return [t.text or "" for t in chart.iter(f"{SPACE}text")]


def said(chart: ET.Element) -> str:
    """What a screen reader says of it."""
    return chart.findtext(f"{SPACE}desc") or ""


def boxes(chart: ET.Element) -> dict[str, Place]:
    """Each box that has a hint, by its hint."""
    return {
        rect.findtext(f"{SPACE}title") or "": place(rect)
        for rect in chart.iter(f"{SPACE}rect")
        if rect.find(f"{SPACE}title") is not None
    }


def place(rect: ET.Element) -> Place:
    x, y, width, height = (float(rect.get(name) or 0) for name in ("x", "y", "width", "height"))
    return x, y, width, height


def ends(text: ET.Element) -> tuple[float, float]:
    """Where a line of text begins and ends at most."""
    bold = text.get("font-weight") is not None
    x, size = float(text.get("x") or 0), float(text.get("font-size") or 0)
    wide = letters.width(text.text or "", size, bold)
    start = {"end": x - wide, "middle": x - wide / 2}.get(text.get("text-anchor") or "", x)
    return start, start + wide


def points(path: ET.Element) -> list[tuple[float, float]]:
    """The corners of a path that only uses M, L, H and V, or where a marker is put."""
    moved = re.match(r"translate\((-?[\d.]+) (-?[\d.]+)\)", path.get("transform") or "")
    if moved:
        return [(float(moved[1]), float(moved[2]))]
    found = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d") or "")
    return [(float(x), float(y)) for x, y in found]


def frame(chart: ET.Element) -> tuple[float, float]:
    """Width and height of the whole."""
    _, _, wide, high = map(float, (chart.get("viewBox") or "").split())
    return wide, high


def outside(chart: ET.Element) -> list[str]:
    """What leaves the frame: boxes by their hint, text by its words, lines by their path."""
    wide, high = frame(chart)
    found = []
    for rect in chart.iter(f"{SPACE}rect"):
        x, y, width, height = place(rect)
        if not (-0.1 <= x <= x + width <= wide + 1 and 0 <= y <= y + height <= high):
            found.append(rect.findtext(f"{SPACE}title") or f"box at {x}, {y}")
    upright = {text for group in chart.iter(f"{SPACE}g") for text in group}
    for text in set(chart.iter(f"{SPACE}text")) - upright:
        start, end = ends(text)
        y, size = float(text.get("y") or 0), float(text.get("font-size") or 0)
        if start < -1 or end > wide + 1 or not size * 0.6 < y <= high:
            found.append(text.text or "")
    for path in chart.findall(f"{SPACE}path"):
        if not all(-0.1 <= x <= wide + 0.1 and 0 <= y <= high for x, y in points(path)):
            found.append(path.get("d") or "")
    return found


def overlapping(chart: ET.Element) -> list[tuple[str, str]]:
    """Texts of which one stands on the other, measured by the widest letters of the two faces."""
    spans = []
    upright = {text for group in chart.iter(f"{SPACE}g") for text in group}
    for text in set(chart.iter(f"{SPACE}text")) - upright:
        y, size = float(text.get("y") or 0), float(text.get("font-size") or 0)
        spans.append((*ends(text), y - 0.72 * size, y + 0.2 * size, text.text or ""))
    spans.sort()
    found = []
    for i, (_, right, top, low, words) in enumerate(spans):
        for left, _, other_top, other_low, other in spans[i + 1 :]:
            if left >= right - 0.5:
                break
            if other_top < low - 0.5 and top < other_low - 0.5:
                found.append((words, other))
    return found


def unreadable(html: object) -> list[object]:
    """What is wrong with the places of things in any width of any picture."""
    return [wrong for one in widths(html) for wrong in [*outside(one), *overlapping(one)]]


def bold(chart: ET.Element) -> dict[str, tuple[float, float, float]]:
    """Where the names in a chart of curves begin and end, and the line they stand on."""
    names = [t for t in chart.iter(f"{SPACE}text") if t.get("font-weight") and t.get("fill")]
    return {t.text or "": (*ends(t), float(t.get("y") or 0)) for t in names}


def curves(chart: ET.Element) -> list[list[tuple[float, float]]]:
    """The corners of each curve."""
    return [points(p) for p in chart.iter(f"{SPACE}path") if p.get("stroke-width") == "2.5"]


def marked(chart: ET.Element) -> dict[str, list[tuple[float, float]]]:
    """Where each curve's markers are, by the name that their hints begin with."""
    found: dict[str, list[tuple[float, float]]] = {}
    for path in chart.iter(f"{SPACE}path"):
        if hint := path.findtext(f"{SPACE}title"):
            found.setdefault(hint.partition(":")[0], []).extend(points(path))
    return found


def struck(chart: ET.Element) -> list[str]:
    """Names of which a curve crosses the letters."""
    found = []
    for name, (left, right, y) in bold(chart).items():
        for (a, b), (c, d) in (leg for curve in curves(chart) for leg in pairwise(curve)):
            steps = [k / 100 for k in range(101)]
            spots = [(a + (c - a) * k, b + (d - b) * k) for k in steps]
            if any(left < x < right and y - 8 < high < y for x, high in spots):
                found.append(name)
                break
    return found
