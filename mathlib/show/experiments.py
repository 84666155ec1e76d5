"""Experiments: controls and a function that returns HTML, declared once, shown in three places.

A notebook draws the controls with ipywidgets, the published page with HTML; without either the
stored result stays.
`run` is the one way to a result, so that all three show the same; a page keeps its units unbroken.
"""

import json
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import import_module
from typing import Any

from mathlib.checks import InputError, one_of
from mathlib.show.controls import Choice, Control, Line, Named, Range, Text, Toggle, doubling
from mathlib.show.figures import up_to_a_picture
from mathlib.show.tables import code_of
from mathlib.show.unbroken import unbroken

__all__ = [
    "Choice",
    "Control",
    "Experiment",
    "Line",
    "Named",
    "Range",
    "Text",
    "Toggle",
    "doubling",
    "experiment",
    "find",
    "registry",
    "run_json",
    "tell",
]


@dataclass(frozen=True)
class Experiment:
    """Controls, a drawing, and the library functions whose code the reader may unfold."""

    id: str
    title: str
    controls: tuple[Control, ...]
    draw: Callable[..., str]
    code: tuple[Callable[..., Any], ...] = ()
    main: int = 3  # so many settings stand open; a phone folds the others
    above: bool = False  # the settings stand above the result
    long: bool = False  # it may take seconds: it can be stopped, and new settings stop it

    @property
    def folded(self) -> tuple[Control, ...]:
        """The controls that a notebook and a phone fold under More settings; never a single one."""
        return self.controls[self.main :] if len(self.controls) > self.main + 1 else ()

    def values(self, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The defaults with `given` put in, every value checked."""
        given = dict(given or {})
        for name in given:
            one_of("control", name, [c.name for c in self.controls])
        return {c.name: c.check(given.get(c.name, c.default)) for c in self.controls}

    def run(self, given: Mapping[str, Any] | None = None) -> str:
        """The result as HTML. A combination that a formula refuses is a result too: the refusal in
        words.
        """
        values = self.values(given)
        try:
            return self.draw(**values)
        except InputError as refusal:
            said = f"Not possible: {refusal}. {self._way_out(values, str(refusal))}".rstrip()
            return f'<p class="mlx-say mlx-refused">{escape(said)}</p>'

    def page(self, given: Mapping[str, Any] | None = None) -> str:
        """The result as a published page shows it: no line ends between a number and its unit."""
        return unbroken(self.run(given))

    def _way_out(self, values: Mapping[str, Any], refusal: str) -> str:
        """Which values of one control are possible, the others left as they are; the control that
        the refusal names comes first.
        """
        for control in sorted(self.controls, key=lambda c: not refusal.startswith(f"{c.name} ")):
            offered: list[Any] = control.offers()
            possible = [control.show(v) for v in offered if self.draws({**values, control.name: v})]
            if possible:
                where = " (under More settings)" if control in self.folded else ""
                what = f"{control.label}{where} can be: {', '.join(possible)}"
                return f"With the other settings as they are, {what}."
        return ""

    def draws(self, values: Mapping[str, Any]) -> bool:
        """Whether nothing refuses these: whoever refuses does so before anything is drawn."""
        try:
            with up_to_a_picture():
                self.draw(**values)
        except InputError:
            return False
        return True

    def source(self) -> str:
        """The code behind the numbers, as it stands in the library."""
        return code_of(self.code)

    def code_html(self) -> str:
        """The same, folded away."""
        if not self.code:
            return ""
        return (
            f'<details class="mlx-code"><summary>The code behind these numbers</summary>'
            f'<pre tabindex="0"><code>{escape(self.source())}</code></pre></details>'
        )

    def html(self, given: Mapping[str, Any] | None = None) -> str:
        """What a notebook stores and a page shows first: result, settings in words, code, and the
        controls as data.
        """
        values = self.values(given)
        controls = [{**c.spec(), "default": values[c.name]} for c in self.controls]
        told = {"id": self.id, "main": self.main, "controls": controls}
        told |= {name: True for name in ("above", "long") if getattr(self, name)}
        spec = escape(json.dumps(told))
        settings = "".join(
            f"<li>{escape(c.label)}: <b>{escape(c.show(values[c.name]))}</b></li>"
            for c in self.controls
        )
        return (
            f'<section class="mlx" data-mlx="{spec}" aria-label="Experiment: {escape(self.title)}">'
            f'<p class="mlx-title"><b>{escape(self.title)}</b></p>'
            f'<div class="mlx-output">{self.run(values)}</div>'
            f'<ul class="mlx-controls">{settings}</ul>{self.code_html()}</section>'
        )


REGISTRY: dict[str, Experiment] = {}


def experiment(
    id: str,
    title: str,
    *controls: Control,
    code: tuple[Callable[..., Any], ...] = (),
    main: int = 3,
    above: bool = False,
    long: bool = False,
) -> Callable:
    """Declare the function beneath as an experiment; it takes one argument for each
    control. The first `main` controls stand open, `above` the result where they are many; a
    `long` one can be stopped.
    """

    def declare(draw: Callable[..., str]) -> Callable[..., str]:
        if id in REGISTRY:
            raise InputError(f"id = {id!r}: an experiment of this name exists already")
        REGISTRY[id] = Experiment(id, title, controls, draw, code, main, above, long)
        return draw

    return declare


@cache
def registry() -> dict[str, Experiment]:
    """Every experiment of the book."""
    rooms = import_module("mathlib.explore")
    for module in pkgutil.iter_modules(rooms.__path__, "mathlib.explore."):
        import_module(module.name)
    return REGISTRY


def find(id: str) -> Experiment:
    """An experiment by its name; a near miss is named."""
    return registry()[one_of("experiment", id, registry())]


Listener = Callable[[float, str], object]
_listeners: list[Listener] = []


def tell(share: float, words: str) -> None:
    """How far a long experiment is, to the page that waits for it."""
    for listener in _listeners:
        listener(share, words)


def run_json(id: str, values_json: str, home: str = "", listener: Listener | None = None) -> str:
    """What the browser calls: the result for values given as JSON. If it names the module that is
    the experiment's home, no other is imported. The listener hears how far a long one is.
    """
    if home:
        import_module(home)
    one = REGISTRY[id] if id in REGISTRY else find(id)
    _listeners[:] = [listener] if listener else []
    try:
        return one.page(json.loads(values_json))
    finally:
        _listeners.clear()
