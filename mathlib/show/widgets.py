"""Experiments and predictions in a notebook: the stored HTML always, live controls where a kernel
has ipywidgets.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from html import escape
from typing import Any

from mathlib.show.experiments import Choice, Control, Experiment, Line, Range, Text, find

VIEW = "application/vnd.jupyter.widget-view+json"


def bundle(html: str, text: str, widget: Callable[[], Any]) -> dict[str, Any]:
    """What Jupyter shows: the widget if it can, else the HTML that is stored."""
    data: dict[str, Any] = {"text/html": html, "text/plain": text}
    with suppress(ImportError):
        data[VIEW] = widget()._repr_mimebundle_()[VIEW]
    return data


def as_output(html: str) -> str:
    """HTML for a widget, with the letters and tables that JupyterLab gives other outputs."""
    return f'<div class="jp-RenderedHTMLCommon">{html}</div>'


def _control(control: Control, value: Any) -> Any:
    import ipywidgets

    unit = f", {control.unit}" if isinstance(control, Range) and control.unit else ""
    look = {
        "description": f"{control.label}{unit}",
        "style": {"description_width": "26em"},
        "layout": {"width": "52em", "max_width": "100%"},
    }
    if isinstance(control, Choice):
        kind = ipywidgets.SelectionSlider if control.slider else ipywidgets.Dropdown
        return kind(options=list(control.options), value=value, **look)
    if isinstance(control, Range):
        whole = isinstance(control.default, int)
        kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
        return kind(value=value, min=control.low, max=control.high, step=control.step, **look)
    if isinstance(control, Line):
        line = ipywidgets.Text(value=value, continuous_update=not control.whole, **look)
        line.observe(lambda typed: setattr(line, "value", control.clean(typed["new"])), "value")
        return line
    if isinstance(control, Text):
        return ipywidgets.Textarea(value=value, placeholder=control.hint, **look)
    return ipywidgets.Checkbox(value=value, **look)


class View:
    """One experiment in one cell, starting from the values given."""

    def __init__(self, experiment: Experiment, **values: Any):
        self.experiment, self.start = experiment, experiment.values(values)

    @cached_property
    def widget(self) -> Any:
        """The live result, and under it the controls; those that are not the main ones fold."""
        import ipywidgets

        controls = {c.name: _control(c, self.start[c.name]) for c in self.experiment.controls}
        result = ipywidgets.HTML(self._shown(self.start))

        def move(_: Any) -> None:
            result.value = self._shown({name: c.value for name, c in controls.items()})

        for control in controls.values():
            control.observe(move, "value")
        rows, folded = list(controls.values()), len(self.experiment.folded)
        if folded:
            more = ipywidgets.Accordion(
                [ipywidgets.VBox(rows[-folded:])], titles=("More settings",)
            )
            rows = [*rows[:-folded], more]
        code = ipywidgets.HTML(as_output(self.experiment.code_html()))
        return ipywidgets.VBox([result, *rows, code])

    def _shown(self, values: dict[str, Any]) -> str:
        """Title and result."""
        title = f'<p class="mlx-title"><b>{escape(self.experiment.title)}</b></p>'
        return as_output(f"{title}{self.experiment.run(values)}")

    def _repr_html_(self) -> str:
        return self.experiment.html(self.start)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(
            self._repr_html_(), f"Experiment: {self.experiment.title}", lambda: self.widget
        )


def explore(id: str, **values: Any) -> View:
    """An experiment by its name, the last line of a cell; values change where its controls
    start.
    """
    return View(find(id), **values)
