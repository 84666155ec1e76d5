"""An equation with the current numbers beneath its symbols, as MathML: no script, no font, no style
sheet needed.

`equation("M = k * P / N", M=..., k=16, P=..., N=8)`; names may carry an index (P_opt) or be Greek
(Psi).
"""

import ast
import math
from html import escape

from mathlib.checks import InputError

GREEK = {
    "alpha": "&alpha;",
    "kappa": "&kappa;",
    "beta": "&beta;",
    "eta": "&eta;",
    "tau": "&tau;",
    "Psi": "&Psi;",
    "Phi": "&Phi;",
    "phi": "&phi;",
}
FUNCTIONS = {
    "min": min,
    "max": max,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "sqrt": math.sqrt,
}
SIGNS = {ast.Add: "+", ast.Sub: "&minus;", ast.Mult: "&sdot;"}
STRUT = '<mpadded height=".75em" depth=".25em">'  # all numbers of a line hang at one height
Number = int | float | tuple[float, str]  # a value, or (value, how it is written)


def plain(value: float) -> str:
    """A number for people: whole ones in full up to a million, others with four digits."""
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:.4g}"


def _symbol(name: str) -> str:
    head, _, index = name.partition("_")
    mark = f"<mi>{GREEK.get(head, escape(head))}</mi>"
    return f"<msub>{mark}<mi>{escape(index)}</mi></msub>" if index else mark


class _Writer(ast.NodeVisitor):
    """Python's own syntax tree of the right-hand side, written as MathML."""

    def __init__(self, shown: dict[str, str]):
        self.shown = shown

    def visit_Name(self, node: ast.Name) -> str:
        beneath = f"<mtext>&nbsp;{escape(self.shown[node.id])}&nbsp;</mtext>"
        return f"<munder>{STRUT}{_symbol(node.id)}</mpadded>{beneath}</munder>"

    def visit_Constant(self, node: ast.Constant) -> str:
        return f"<mn>{plain(node.value)}</mn>"

    def visit_Call(self, node: ast.Call) -> str:
        inside = "<mo>,</mo>".join(self.visit(a) for a in node.args)
        return f"<mi>{node.func.id}</mi><mo>(</mo>{inside}<mo>)</mo>"

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        return f"<mo>&minus;</mo>{self.visit(node.operand)}"

    def visit_BinOp(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.Div):
            return (
                f"<mfrac><mrow>{self.visit(node.left)}</mrow><mrow>"
                f"{self.visit(node.right)}</mrow></mfrac>"
            )
        if isinstance(node.op, ast.Pow):
            base = self._bracketed(node.left, isinstance(node.left, ast.BinOp))
            return f"<msup><mrow>{base}</mrow><mrow>{self.visit(node.right)}</mrow></msup>"
        product = isinstance(node.op, ast.Mult)
        loose = (ast.Add, ast.Sub)
        left = self._bracketed(
            node.left, product and isinstance(getattr(node.left, "op", None), loose)
        )
        right = self._bracketed(
            node.right,
            not isinstance(node.op, ast.Add) and isinstance(getattr(node.right, "op", None), loose),
        )
        return f"{left}<mo>{SIGNS[type(node.op)]}</mo>{right}"

    def _bracketed(self, node: ast.expr, needed: bool) -> str:
        return f"<mo>(</mo>{self.visit(node)}<mo>)</mo>" if needed else self.visit(node)


def equation(law: str, **numbers: Number) -> str:
    """The law as MathML, every symbol with its number beneath; refused when the numbers do not
    satisfy it.
    """
    left, _, right = law.partition("=")
    tree, name = ast.parse(right.strip(), mode="eval"), left.strip()
    values = {n: v[0] if isinstance(v, tuple) else v for n, v in numbers.items()}
    shown = {n: v[1] if isinstance(v, tuple) else plain(v) for n, v in numbers.items()}
    missing = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - set(FUNCTIONS) - set(
        values
    ) | {name} - set(values)
    if missing:
        raise InputError(f"numbers: {law!r} also needs {', '.join(sorted(missing))}")
    result = eval(compile(tree, law, "eval"), {"__builtins__": {}, **FUNCTIONS}, values)
    if not math.isclose(result, values[name], rel_tol=1e-9):
        raise InputError(f"{name} = {values[name]!r}: {law!r} gives {result!r}")
    writer = _Writer(shown)
    body = f"{writer.visit(ast.Name(name))}<mo>=</mo>{writer.visit(tree.body)}"
    place = f'<div class="mlx-equation" tabindex="0" role="group" aria-label="{escape(law)}">'
    return f'{place}<math display="block">{body}</math></div>'
