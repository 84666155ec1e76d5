"""```{experiment} memory```: an experiment of the library on any page, with its stored result."""

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from mathlib.show.experiments import find


class Experiment(Directive):
    """The HTML that a notebook would store for `explore(id)`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", find(self.arguments[0]).html(), format="html")]


def setup(app: Sphinx) -> dict:
    app.add_directive("experiment", Experiment)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
