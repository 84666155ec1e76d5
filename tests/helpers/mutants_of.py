"""Small mechanical changes of a program, each of which a puzzle's tests have to notice."""

import ast
import copy

OTHERS = {"reduce_scatter": "all_reduce", "all_reduce": "reduce_scatter"}  # what is confused
SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Lt: ast.LtE, ast.Eq: ast.NotEq}


def mutants(text):
    """(what was changed, the changed text): signs, comparisons, numbers, branches, statements."""
    tree = ast.parse(text)
    for place, node in enumerate(ast.walk(tree)):
        for said, change in changes(node):
            other = copy.deepcopy(tree)
            change(list(ast.walk(other))[place])
            line = getattr(node, "lineno", None) or node.iter.lineno
            yield f"line {line}: {said}", ast.unparse(ast.fix_missing_locations(other))


def changes(node):
    """What can be changed of a node, and how."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in SWAPPED:
        yield "sign", lambda n: setattr(n, "op", SWAPPED[type(n.op)]())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield "comparison", lambda n: setattr(n, "ops", [SWAPPED[type(n.ops[0])]()])
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "one more", lambda n: setattr(n, "value", n.value + 1)
    if isinstance(node, ast.IfExp):
        yield "other branch", swap
    if isinstance(node, (ast.Expr, ast.AugAssign)):
        yield "left out", forget
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Mult)):
        yield "factor left out", lambda n: become(n, n.left)
    if isinstance(node, ast.Attribute) and ast.unparse(node) == "me.rank":
        yield "rank 0", lambda n: become(n, ast.Constant(0))
        yield "rank + 1", lambda n: become(n, ast.parse("me.rank + 1", mode="eval").body)
        yield "rank - 1", lambda n: become(n, ast.parse("(me.rank - 1)", mode="eval").body)
    if isinstance(node, ast.Attribute) and ast.unparse(node) == "me.size":
        yield "one rank less", lambda n: become(n, ast.parse("(me.size - 1)", mode="eval").body)
    if isinstance(node, (ast.For, ast.comprehension)):
        yield "first one skipped", lambda n: setattr(n, "iter", call("list", n.iter, "[1:]"))
    if isinstance(node, ast.For):
        yield "the other way round", lambda n: setattr(n, "iter", call("list", n.iter, "[::-1]"))
    if isinstance(node, ast.Await) and isinstance(node.value.func, ast.Name):
        yield "await left out", lambda n: become(n, n.value)
        if other := OTHERS.get(node.value.func.id):
            yield other, lambda n: setattr(n.value.func, "id", other)
        if len(node.value.args) > 1:
            yield "exchange left out", lambda n: become(n, n.value.args[1])
        if len(node.value.args) > 2:
            yield "group left out", lambda n: n.value.args.pop()
    if isinstance(node, (ast.List, ast.Tuple)) and isinstance(node.ctx, ast.Load) and node.elts[1:]:
        yield "order", lambda n: n.elts.reverse()


def call(function, argument, after):
    """An expression of some other."""
    return ast.parse(f"{function}({ast.unparse(argument)}){after}", mode="eval").body


def become(n, other):
    """This node is that one."""
    n.__class__ = other.__class__
    n.__dict__.update(other.__dict__)


def swap(n):
    n.body, n.orelse = n.orelse, n.body


def forget(n):
    """A statement that does nothing."""
    one = ast.Constant(None)
    if isinstance(n, ast.Expr):
        n.value = one
    else:
        n.op, n.value = ast.Mult(), ast.Constant(1)
