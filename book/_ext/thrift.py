"""What other extensions do again and again, or for nobody: done once, or not at all."""

from functools import cache

import pybtex.plugin
from sphinx.application import Sphinx


def without_index(app: Sphinx) -> None:
    """Sphinx's own search index, which no page loads: search_index.py writes the book's."""
    for step in ("load_indexer", "index_page", "dump_search_index"):
        if hasattr(app.builder, step):
            setattr(app.builder, step, lambda *given: None)


def setup(app: Sphinx) -> dict:
    if not hasattr(pybtex.plugin._load_entry_point, "cache_info"):
        # each citation reads anew what every installed package offers
        pybtex.plugin._load_entry_point = cache(pybtex.plugin._load_entry_point)
    app.connect("builder-inited", without_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
