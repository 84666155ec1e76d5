"""The book's faces, served by the book itself: Source Serif 4, Source Sans 3, Source Code Pro.

Licence: SIL Open Font License 1.1, copied beside the files.  book/live/package.json names the
versions; page.css says where each is used.
"""

import shutil
from pathlib import Path

from sphinx.application import Sphinx

FACES = {  # file on the site: package, file of the package
    "serif": ("source-serif-4", "source-serif-4-latin-wght-normal"),
    "serif-italic": ("source-serif-4", "source-serif-4-latin-wght-italic"),
    "sans": ("source-sans-3", "source-sans-3-latin-wght-normal"),
    "code": ("source-code-pro", "source-code-pro-latin-wght-normal"),
}
FIRST = "serif", "sans"  # what the first screen is set in


def copy(app: Sphinx) -> None:
    if app.builder.format != "html":
        return
    packages = Path(app.confdir) / "book/live/node_modules/@fontsource-variable"
    target = Path(app.outdir) / "_static/faces"
    target.mkdir(parents=True, exist_ok=True)
    for name, (package, file) in FACES.items():
        shutil.copy2(packages / package / f"files/{file}.woff2", target / f"{name}.woff2")
        shutil.copy2(packages / package / "LICENSE", target / f"{package}-license.txt")


def preload(app: Sphinx, page: str, template: str, context: dict, doctree: object) -> None:
    """The browser asks for the text's face before it has read a style sheet."""
    for name in FIRST:
        address = context["pathto"](f"_static/faces/{name}.woff2", 1)
        link = f'<link rel="preload" as="font" type="font/woff2" href="{address}" crossorigin/>'
        context["metatags"] = context.get("metatags", "") + link + "\n"


def setup(app: Sphinx) -> dict:
    app.connect("builder-inited", copy)
    app.connect("html-page-context", preload)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
