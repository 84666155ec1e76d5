"""What search engines and link previews say of a page: its first paragraph.

Where the site's address is known (address.py), they are also told it, and the page's card.
"""

from html import escape

import cards
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
    told = {
        "title": escape(app.env.titles[pagename].astext()),
        "description": said,
        "type": "website",
        "site_name": escape(app.config.html_title),
    }
    tags = f'<meta name="description" content="{said}">\n'
    if app.config.html_baseurl:
        told |= with_address(app, pagename)
        tags += '<meta name="twitter:card" content="summary_large_image">\n'
    tags += "".join(f'<meta property="og:{name}" content="{x}">\n' for name, x in told.items())
    context["metatags"] = context.get("metatags", "") + tags


def with_address(app: Sphinx, pagename: str) -> dict[str, str]:
    """What needs the site's address: where the page is, and its card."""
    home = app.config.html_baseurl
    return {
        "url": home + app.builder.get_target_uri(pagename),
        "image": home + cards.written_for(app, pagename),
        "image:width": str(cards.WIDE),
        "image:height": str(cards.HIGH),
        "image:alt": escape(app.env.titles[pagename].astext()),
    }


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", describe)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
