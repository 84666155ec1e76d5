"""What a chart says and shows, read back from its SVG."""

import re
import xml.etree.ElementTree as ET

from mathlib.show import svg

SPACE = "{http://www.w3.org/2000/svg}"
Place = tuple[float, float, float, float]  # x, y, width, height


def drawn(html: object) -> ET.Element:
    """The chart inside of some HTML, or of what shows itself as HTML."""
    text = html if isinstance(html, str) else html._repr_html_()  # type: ignore[attr-defined]
    found = re.search("<svg.*?</svg>", text, re.DOTALL)
    assert found, f"no chart in {text[:200]}"
    return ET.fromstring(found[0])


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
    """Where a line of text begins and ends, in a font of middling width."""
    x, wide = float(text.get("x") or 0), len(text.text or "") * float(text.get("font-size")) * 0.55
    start = {"end": x - wide, "middle": x - wide / 2}.get(text.get("text-anchor") or "", x)
    return start, start + wide


def points(path: ET.Element) -> list[tuple[float, float]]:
    """The corners of a path that only uses M and L, or where a marker is put."""
    moved = re.match(r"translate\((-?[\d.]+) (-?[\d.]+)\)", path.get("transform") or "")
    if moved:
        return [(float(moved[1]), float(moved[2]))]
    found = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d") or "")
    return [(float(x), float(y)) for x, y in found]


def outside(chart: ET.Element) -> list[str]:
    """What leaves the frame: boxes by their hint, text by its words, lines by their path."""
    high = float((chart.get("viewBox") or "").split()[3])
    found = []
    for rect in chart.iter(f"{SPACE}rect"):
        x, y, width, height = place(rect)
        if not (-0.1 <= x <= x + width <= svg.WIDTH + 1 and 0 <= y <= y + height <= high):
            found.append(rect.findtext(f"{SPACE}title") or f"box at {x}, {y}")
    for text in chart.iter(f"{SPACE}text"):
        start, end = ends(text)
        if start < -2 or end > svg.WIDTH + 2 or not 0 < float(text.get("y") or 0) <= high:
            found.append(text.text or "")
    for path in chart.findall(f"{SPACE}path"):
        if not all(-0.1 <= x <= svg.WIDTH + 0.1 and 0 <= y <= high for x, y in points(path)):
            found.append(path.get("d") or "")
    return found
