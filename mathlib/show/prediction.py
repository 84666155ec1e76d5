"""Predict first: the reader commits to a number, then sees prediction and measurement.

The same bytes everywhere: the answer folds out by itself; where scripts or a kernel run, a box
takes the guess first.
"""

import json
import math
import re
from html import escape
from typing import Any

from mathlib.checks import InputError
from mathlib.show.says import amount, html, plain
from mathlib.show.widgets import as_output, bundle

FEW = 10  # a whole number below is counted, not scaled
GROUPED = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)


def guessed(typed: str, unit: str) -> float:
    """The number that a reader typed, alone or with the question's unit.

    "2,5" is two and a half, "1,000" a thousand; book/live/predict.mjs reads it alike.
    """
    own, text = unit.replace(" ", ""), re.sub(r"\s", "", typed.replace("−", "-"))
    text = text.removesuffix(own).removeprefix(own)
    if GROUPED.fullmatch(text):
        text = text.replace(",", "")
    value = float(text.replace(",", ".")) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        how = f"alone or with {unit}" if unit else "alone"
        raise InputError(f"Type a number, for example 12, 2.5 or 3e9, {how}.")
    return value


def _said(value: float, unit: str) -> str:
    return f"{plain(value).replace('-', '−')} {unit}".rstrip().replace(" %", "%")


def judge(guess: float, measured: float, unit: str, word: str = "measured") -> str:
    """What is said about a guess: how many times the measured value it is, or how many too many."""
    said = f"You said {_said(guess, unit)}"
    if guess == measured:
        return f"{said}: exactly what was {word}."
    if not measured or guess / measured <= 0:
        return f"{said}; {word}: {_said(measured, unit)}."
    times = guess / measured
    few = 0 < measured < FEW and float(measured).is_integer() and float(guess).is_integer()
    if few and not unit:  # a count, or the third of several
        return f"{said}: {plain(abs(guess - measured))} too {'high' if times > 1 else 'low'}."
    near = "close" if 0.9 <= times <= 1.1 else "too high" if times > 1 else "too low"
    digits = f"{times:.2f}" if 0.01 <= times < 10 else plain(times)
    return f"{said}: {digits} times the {word} value, {near}."


class Prediction:
    """A question with its answer folded away."""

    def __init__(
        self,
        question: str,
        measured: float,
        predicted: float | None,
        unit: str,
        explanation: str,
        word: str = "measured",
    ):
        self.question, self.measured, self.predicted = question, measured, predicted
        self.unit, self.explanation, self.word = unit, explanation, word

    def _answer(self) -> str:
        rows = [(self.word, self.measured)]
        if self.predicted is not None:
            rows.insert(0, ("predicted", self.predicted))
        cells = "".join(
            f"<dt>{word}</dt><dd>{html(amount(value, self.unit))}</dd>" for word, value in rows
        )
        why = f"<p>{html(self.explanation)}</p>" if self.explanation else ""
        return f"<dl>{cells}</dl>{why}"

    def _repr_html_(self) -> str:
        told = {"measured": self.measured, "unit": self.unit}
        told |= {"word": self.word} if self.word != "measured" else {}
        data = escape(json.dumps(told, sort_keys=True))
        return (
            f'<section class="mlx-predict" data-predict="{data}" aria-label="Predict first">'
            f"<p><b>Predict first.</b> {html(self.question)}</p>"
            f"<details><summary>Show the answer</summary>{self._answer()}</details></section>"
        )

    def __str__(self) -> str:
        return f"Predict first: {self.question}"

    __repr__ = __str__

    def widget(self) -> Any:
        """A box for the guess; the answer appears once something was typed."""
        import ipywidgets

        box = ipywidgets.Text(
            description=f"Your guess ({self.unit})" if self.unit else "Your guess",
            style={"description_width": "12em"},
        )
        button = ipywidgets.Button(description="Compare")
        answer = ipywidgets.HTML()

        def reveal(_: Any) -> None:
            try:
                guess = guessed(box.value, self.unit)
            except InputError as refusal:
                answer.value = escape(str(refusal))
                return
            said = judge(guess, self.measured, self.unit, self.word)
            answer.value = as_output(f"<p><b>{escape(said)}</b></p>{self._answer()}")

        button.on_click(reveal)
        question = ipywidgets.HTML(as_output(f"<p><b>Predict first.</b> {html(self.question)}</p>"))
        return ipywidgets.VBox([question, ipywidgets.HBox([box, button]), answer])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(self._repr_html_(), str(self), self.widget)


def predict(
    question: str,
    *,
    measured: float,
    predicted: float | None = None,
    unit: str = "",
    explanation: str = "",
    word: str = "measured",
) -> Prediction:
    """A question to guess at, the last line of a cell; `measured` and `predicted` are numbers in
    `unit`. `word`: "computed" where nothing ran.
    """
    for name, value in (("measured", measured), ("predicted", predicted)):
        number = (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
        if not number and not (name == "predicted" and value is None):
            raise InputError(f"{name} = {value!r}: expected a finite number")
    return Prediction(question, measured, predicted, unit, explanation, word)
