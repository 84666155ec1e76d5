"""What other extensions do again and again, or for nobody: done once, or not at all."""

import re
from collections.abc import Iterator
from functools import cache

import pybtex.plugin
from ipython_pygments_lexers import IPython3Lexer
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx


class Cell(IPython3Lexer):
    """A cell without magics is plain Python, which is read in two thirds of the time."""

    magic = re.compile(r"^\s*[%!?]|\?\s*$|=\s*[%!]", re.MULTILINE)

    def get_tokens_unprocessed(self, text: str, *stack: object) -> Iterator[tuple]:
        lexer = super() if self.magic.search(text) else PythonLexer()
        return lexer.get_tokens_unprocessed(text, *stack)


def without_index(app: Sphinx) -> None:
    """Sphinx's own search index, which no page loads: search_index.py writes the book's."""
    for step in ("load_indexer", "index_page", "dump_search_index"):
        if hasattr(app.builder, step):
            setattr(app.builder, step, lambda *given: None)


def setup(app: Sphinx) -> dict:
    if not hasattr(pybtex.plugin._load_entry_point, "cache_info"):
        # each citation reads anew what every installed package offers
        pybtex.plugin._load_entry_point = cache(pybtex.plugin._load_entry_point)
    app.add_lexer("ipython3", Cell)
    app.connect("builder-inited", without_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
