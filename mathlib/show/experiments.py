"""Experiments: controls and a function that returns HTML, declared once, shown in three places.

A notebook draws the controls with ipywidgets, the published page with HTML; without either the
stored result stays.
`run` is the one way to a result, so that all three show the same bytes.
"""

import json
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import import_module
from typing import Any

from mathlib.checks import InputError, one_of, whole
from mathlib.show.tables import code_of


@dataclass(frozen=True)
class Range:
    """A slider over low, low + step, ..., high."""

    name: str  # the argument it sets
    label: str  # full words, as the reader sees them
    low: float
    high: float
    step: float
    default: float
    unit: str = ""

    def spec(self) -> dict[str, Any]:
        return {
            "kind": "range",
            "name": self.name,
            "label": self.label,
            "low": self.low,
            "high": self.high,
            "step": self.step,
            "default": self.default,
            "unit": self.unit,
        }

    def check(self, value: Any) -> float:
        """The value on the slider's own grid: 0.1 + 0.2 and 0.3 must not draw two pictures."""
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.low <= value <= self.high:
            raise InputError(
                f"{self.name} = {value!r}: expected a number from {self.low} to {self.high}"
            )
        on_grid = self.low + round((value - self.low) / self.step) * self.step
        return on_grid if isinstance(on_grid, int) else round(on_grid, 9)

    def offers(self) -> list[float]:
        """Every value of the slider."""
        steps = round((self.high - self.low) / self.step)
        return [self.check(self.low + i * self.step) for i in range(steps + 1)]

    def show(self, value: float) -> str:
        return f"{value:g} {self.unit}".rstrip()


@dataclass(frozen=True)
class Choice:
    """One of several options, (label, value) each: a menu, or a slider when the options have an
    order.
    """

    name: str
    label: str
    options: tuple[tuple[str, Any], ...]
    default: Any
    slider: bool = False

    def spec(self) -> dict[str, Any]:
        return {
            "kind": "slider" if self.slider else "menu",
            "name": self.name,
            "label": self.label,
            "options": [list(o) for o in self.options],
            "default": self.default,
        }

    def offers(self) -> list[Any]:
        return [value for _, value in self.options]

    def check(self, value: Any) -> Any:
        values = self.offers()
        return values[values.index(one_of(self.name, value, values))]

    def show(self, value: Any) -> str:
        return next(label for label, v in self.options if v == value)


@dataclass(frozen=True)
class Toggle:
    """Yes or no."""

    name: str
    label: str
    default: bool = False

    def spec(self) -> dict[str, Any]:
        return {"kind": "toggle", "name": self.name, "label": self.label, "default": self.default}

    def offers(self) -> list[bool]:
        return [True, False]

    def check(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise InputError(f"{self.name} = {value!r}: expected true or false")
        return value

    def show(self, value: bool) -> str:
        return "yes" if value else "no"


@dataclass(frozen=True)
class Line:
    """A line that the reader types, of a few letters; no other gets in."""

    name: str
    label: str
    letters: str
    most: int  # letters of a line
    default: str

    def spec(self) -> dict[str, Any]:
        return {
            "kind": "line",
            "name": self.name,
            "label": self.label,
            "letters": self.letters,
            "most": self.most,
            "default": self.default,
        }

    def offers(self) -> list[str]:
        """A refusal has no other lines to offer."""
        return []

    def check(self, value: Any) -> str:
        if not isinstance(value, str) or self.clean(value) != value:
            raise InputError(
                f"{self.name} = {value!r}: expected at most {self.most} of the letters "
                f"{self.letters!r}"
            )
        return value

    def clean(self, text: str) -> str:
        """What of a text may stay."""
        return "".join(letter for letter in text if letter in self.letters)[: self.most]

    def show(self, value: str) -> str:
        return value


Control = Range | Choice | Toggle | Line


def doubling(name: str, label: str, low: int, high: int, default: int, unit: str = "") -> Choice:
    """A slider over low, 2 low, 4 low, ... up to high: the logarithmic range of sizes and
    degrees.
    """
    values = []
    value = whole("low", low)
    while value <= high:
        values.append(value)
        value *= 2
    options = tuple((f"{v:,} {unit}".rstrip(), v) for v in values)
    return Choice(name, label, options, one_of(name, default, values), slider=True)


@dataclass(frozen=True)
class Experiment:
    """Controls, a drawing, and the library functions whose code the reader may unfold."""

    id: str
    title: str
    controls: tuple[Control, ...]
    draw: Callable[..., str]
    code: tuple[Callable[..., Any], ...] = ()
    main: int = 3  # so many settings stand open; a phone folds the others

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

    def _way_out(self, values: Mapping[str, Any], refusal: str) -> str:
        """Which values of one control are possible, the others left as they are; the control that
        the refusal names comes first.
        """
        for control in sorted(self.controls, key=lambda c: not refusal.startswith(f"{c.name} ")):
            offered: list[Any] = control.offers()
            possible = [
                control.show(v) for v in offered if self._draws({**values, control.name: v})
            ]
            if possible:
                where = " (under More settings)" if control in self.folded else ""
                what = f"{control.label}{where} can be: {', '.join(possible)}"
                return f"With the other settings as they are, {what}."
        return ""

    def _draws(self, values: Mapping[str, Any]) -> bool:
        try:
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
        spec = escape(json.dumps({"id": self.id, "main": self.main, "controls": controls}))
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
) -> Callable:
    """Declare the function beneath as an experiment; it takes one argument for each
    control. The first `main` controls stand open.
    """

    def declare(draw: Callable[..., str]) -> Callable[..., str]:
        if id in REGISTRY:
            raise InputError(f"id = {id!r}: an experiment of this name exists already")
        REGISTRY[id] = Experiment(id, title, controls, draw, code, main)
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


def run_json(id: str, values_json: str, home: str = "") -> str:
    """What the browser calls: the result for values given as JSON. If it names the module that is
    the experiment's home, no other is imported.
    """
    if home:
        import_module(home)
    one = REGISTRY[id] if id in REGISTRY else find(id)
    return one.run(json.loads(values_json))
