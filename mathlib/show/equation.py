"""An equation with the current numbers beneath its symbols, as MathML: no script, no font, no style
sheet needed.

`equation("M = k * P / N", M=..., k=16, P=..., N=8)`; names may carry an index (P_opt) or be Greek
(Psi).
"""

import ast
import math
from functools import cache
from html import escape
from types import CodeType

from mathlib.checks import InputError
from mathlib.show.says import plain

GREEK = {
    "alpha": "&alpha;",
    "delta": "&delta;",
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
LONG = 7  # with more numbers beneath, a line may end before the last factor, where it is a sum


def _symbol(name: str) -> str:
    head, _, index = name.partition("_")
    mark = f"<mi>{GREEK.get(head, escape(head))}</mi>"
    upright = ' mathvariant="normal"' if len(index) > 1 else ""  # a word, not letters multiplied
    return f"<msub>{mark}<mi{upright}>{escape(index)}</mi></msub>" if index else mark


def _brackets(inside: str) -> str:
    """Brackets as high as the line, not as the numbers beneath; as a fraction where one is in."""
    size = ' class="mlx-tall"' if "<mfrac>" in inside else ""
    left, right = (f'<mo stretchy="false"{size}>{sign}</mo>' for sign in "()")
    return f"<mrow>{left}{inside}{right}</mrow>"


def _is_sum(node: ast.expr) -> bool:
    """A sum or a difference, which needs brackets inside a product."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


class _Writer(ast.NodeVisitor):
    """Python's own syntax tree of the right-hand side, written as MathML."""

    def __init__(self, shown: dict[str, str]):
        self.shown = shown

    def beneath(self, name: str, mark: str) -> str:
        """What stands for a number, over the number."""
        number = f"<mtext>&nbsp;{escape(self.shown[name])}&nbsp;</mtext>"
        return f"<munder>{STRUT}{mark}</mpadded>{number}</munder>"

    def visit_Name(self, node: ast.Name) -> str:
        return self.beneath(node.id, _symbol(node.id))

    def visit_Constant(self, node: ast.Constant) -> str:
        assert isinstance(node.value, int | float), "a law holds numbers and symbols"
        return f"<mn>{plain(node.value)}</mn>"

    def visit_Call(self, node: ast.Call) -> str:
        assert isinstance(node.func, ast.Name), "a law calls FUNCTIONS"
        inside = "<mo>,</mo>".join(self.visit(a) for a in node.args)
        if node.func.id == "sqrt":  # a root's sign grows with its content in few faces
            return f"<msup>{_brackets(inside)}<mn>1/2</mn></msup>"
        return f'<mi mathvariant="normal">{node.func.id}</mi>' + _brackets(inside)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        return f"<mo>&minus;</mo>{self.visit(node.operand)}"

    def visit_BinOp(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.Div):
            return (
                f"<mfrac><mrow>{self.visit(node.left)}</mrow><mrow>"
                f"{self.visit(node.right)}</mrow></mfrac>"
            )
        if isinstance(node.op, ast.Pow) and isinstance(node.left, ast.Name):
            exponent = f"<mrow>{self.visit(node.right)}</mrow>"  # near its base, not under it
            power = f"<msup>{_symbol(node.left.id)}{exponent}</msup>"
            return self.beneath(node.left.id, power)
        if isinstance(node.op, ast.Pow):
            base = self._bracketed(node.left, isinstance(node.left, ast.BinOp))
            return f"<msup><mrow>{base}</mrow><mrow>{self.visit(node.right)}</mrow></msup>"
        product, plus = isinstance(node.op, ast.Mult), isinstance(node.op, ast.Add)
        left = self._bracketed(node.left, product and _is_sum(node.left))
        right = self._bracketed(node.right, not plus and _is_sum(node.right))
        return f"{left}<mo>{SIGNS[type(node.op)]}</mo>{right}"

    def _bracketed(self, node: ast.expr, needed: bool) -> str:
        return _brackets(self.visit(node)) if needed else self.visit(node)


@cache
def _parsed(law: str) -> tuple[str, ast.Expression, set[str], CodeType]:
    """The letter on the left; of the right-hand side the tree, the letters, and the code."""
    left, _, right = law.partition("=")
    tree = ast.parse(right.strip(), mode="eval")
    symbols = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - set(FUNCTIONS)
    return left.strip(), tree, symbols, compile(tree, law, "eval")


def equation(law: str, **numbers: Number) -> str:
    """The law as MathML, every symbol with its number beneath; refused when the numbers do not
    satisfy it.
    """
    name, tree, symbols, code = _parsed(law)
    values = {n: v[0] if isinstance(v, tuple) else v for n, v in numbers.items()}
    shown = {n: v[1] if isinstance(v, tuple) else plain(v) for n, v in numbers.items()}
    missing = (symbols | {name}) - set(values)
    if missing:
        raise InputError(f"numbers: {law!r} also needs {', '.join(sorted(missing))}")
    result = eval(code, {"__builtins__": {}, **FUNCTIONS}, values)
    if not math.isclose(result, values[name], rel_tol=1e-9):
        raise InputError(f"{name} = {values[name]!r}: {law!r} gives {result!r}")
    writer = _Writer(shown)
    whole = f"{writer.visit(ast.Name(name))}<mo>=</mo>{writer.visit(tree.body)}"
    pieces = [f'<math display="block">{whole}</math>']
    match tree.body:
        case ast.BinOp(op=ast.Mult(), right=last) if _is_sum(last):
            if whole.count("<munder>") > LONG:
                at = whole.rindex(_brackets(writer.visit(last)))
                pieces = [
                    f'<math displaystyle="true">{part}</math>' for part in (whole[:at], whole[at:])
                ]
    place = f'<div class="mlx-equation" tabindex="0" role="group" aria-label="{escape(law)}">'
    return f"{place}{''.join(pieces)}</div>"
