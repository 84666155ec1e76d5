"""What search engines and link previews say of a page: its first paragraph.

Where the repository's address is known, address.py has more written: pictures, and where the page
is.
"""

from html import escape

from docutils import nodes
from sphinx.application import Sphinx

LONGEST = 200  # characters; who shows a description cuts it about there


def description(doctree: nodes.document) -> str:
    """The first paragraph as plain text, whole sentences as far as they fit."""
    first = next(doctree.findall(nodes.paragraph), None)
    text = " ".join(first.astext().split()) if first else ""
    if len(text) <= LONGEST:
        return text
    cut = text[:LONGEST]
    end = max(cut.rfind(mark) for mark in (". ", "? ", "! "))
    return cut[: end + 1] if end > 40 else cut.rpartition(" ")[0] + " …"


def describe(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: nodes.document | None
) -> None:
    if doctree is None:
        return
    said = escape(description(doctree))
    tags = f'<meta name="description" content="{said}">\n'
    if not app.config.html_baseurl:
        title = escape(app.env.titles[pagename].astext())
        tags += (
            f'<meta property="og:title" content="{title}">\n'
            f'<meta property="og:description" content="{said}">\n'
            '<meta property="og:type" content="website">\n'
            f'<meta property="og:site_name" content="{escape(app.config.html_title)}">\n'
        )
    context["metatags"] = context.get("metatags", "") + tags


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
