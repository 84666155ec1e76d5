"""Write the poster as files that people pass on: `python tools/poster.py`.

book/_static/poster.svg is drawn by mathlib.show.schemes.poster on white paper; poster.png is made
of it. Run it after a change of the drawing or of a formula in it; a test says when.
"""

import re
import sys
import zlib
from io import BytesIO
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))
import raster  # noqa: E402

from mathlib.show.kit.sheet import WIDE  # noqa: E402
from mathlib.show.schemes import poster  # noqa: E402

FILES = ROOT / "book/_static/poster.svg", ROOT / "book/_static/poster.png"
MARGIN = 44
PIXELS = 2000  # across
MADE_FROM = "made from"  # the word in the PNG under which it has its drawing's checksum


def on_paper() -> str:
    """The wide drawing with a margin, black on white."""
    svg = poster.drawn(WIDE)
    high = float(re.search(r'viewBox="0 0 \S+ (\S+)"', svg)[1])
    wide, high = WIDE + 2 * MARGIN, high + 2 * MARGIN
    frame = f'viewBox="{-MARGIN} {-MARGIN} {wide} {high:g}"'
    svg = re.sub(
        r'viewBox="[^"]*" width="100%" style="[^"]*"', f'{frame} color="#111"', svg, count=1
    )
    paper = f'<rect x="{-MARGIN}" y="{-MARGIN}" width="{wide}" height="{high:g}" fill="#fff"/>'
    return svg.replace("</desc>", f"</desc>{paper}", 1) + "\n"


def checksum(svg: str) -> str:
    return f"{zlib.crc32(svg.encode()):08x}"


def as_png(svg: str) -> bytes:
    """In few colours, which its flat areas do not miss, with the checksum of its drawing."""
    image = Image.open(BytesIO(raster.png(svg, ROOT, PIXELS))).convert("RGB")
    told, out = PngInfo(), BytesIO()
    told.add_text(MADE_FROM, checksum(svg))
    image.quantize(128, dither=Image.Dither.NONE).save(out, "PNG", optimize=True, pnginfo=told)
    return out.getvalue()


if __name__ == "__main__":
    svg = on_paper()
    FILES[0].write_text(svg, "utf-8")
    FILES[1].write_bytes(as_png(svg))
    for file in FILES:
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")
