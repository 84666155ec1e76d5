"""Repairs of what docutils and its extensions write and a screen reader stumbles over.

tests/book holds that nothing serious is left.
"""

from sphinx.application import Sphinx


def repair(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object) -> None:
    body = context.get("body") or ""
    # The label would hide what the summary says: "Show code cell source", "Solution to Exercise 1".
    body = body.replace(' aria-label="Toggle hidden content"', "")
    # A bibliography entry is no list item any more (DPUB-ARIA 1.1), so that its list would be a
    # list of nothing.
    context["body"] = body.replace(
        '<div role="list" class="citation-list">', '<div class="citation-list">'
    )


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", repair)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
