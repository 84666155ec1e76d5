"""Code in stored HTML gets its colours while the book is built, and its file's name a link.

What a notebook stores stays plain: the same bytes in Jupyter, in the browser and on the page.
"""

import re
from html import unescape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx

LISTING = re.compile(r'<pre tabindex="0"><code>(.*?)</code></pre>', re.DOTALL)
FILE = re.compile(r'<p class="mlx-file">(mathlib/[\w/]+\.py)</p>')

ADDRESS = re.compile(r'\n\n(?: +Chapter: \w+(?: \(eq-[^)]*\))?\n)+(?= *""")')
ONE_LINE = re.compile(r'^ *r?"""[^"\n]+\n *"""', re.MULTILINE)


def without_address(code: str) -> str:
    """A docstring's last lines say in which chapter the function stands: the reader is there."""

    def closed(found: re.Match[str]) -> str:
        line = found[0].split("\n")[0] + '"""'
        return line if len(line) <= 88 else found[0]

    return ONE_LINE.sub(closed, ADDRESS.sub("\n", code))


def coloured(code: str) -> str:
    """Python as spans."""
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def dress(body: str, repository: str) -> str:
    """Every stored listing coloured, every file's name linked if the repository has an address."""

    def colour(found: re.Match[str]) -> str:
        code = coloured(without_address(unescape(found[1])))
        return f'<div class="highlight"><pre tabindex="0"><code>{code}</code></pre></div>'

    if repository:
        link = rf'<p class="mlx-file"><a href="{repository}/blob/main/\1">\1</a></p>'
        body = FILE.sub(link, body)
    return LISTING.sub(colour, body)


def page(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object) -> None:
    options = app.config.html_theme_options  # the address is Jupyter Book's own if nobody gave one
    repository = options["repository_url"] if options.get("use_repository_button") else ""
    context["body"] = dress(context.get("body") or "", repository)


def setup(app: Sphinx) -> dict:
    app.connect("html-page-context", page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
