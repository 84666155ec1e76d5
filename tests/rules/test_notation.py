"""The notation page is the only authority: a letter means what it says there, in every legend and
in every line that turns an argument into a letter.
"""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "mathlib").rglob("[!_]*.py"))
GREEK = {"alpha", "kappa", "psi", "beta", "tau"}
ITEM = re.compile(r"^(\w+(?:, \w+)*) ([\w-]+)")
# Letters of a field of their own, each in a room or two: said on the page under "Local symbols".
LOCAL = {"x", "y", "i", "j"}  # any value, any index: no quantity
FORMULAS = ("compute", "memory", "traffic", "schedule", "plan")


def is_letter(name: str) -> bool:
    return len(name) == 1 and name.isalpha() or name in GREEK


@cache
def page() -> tuple[dict[str, str], dict[str, set[str]]]:
    """What the page says of each letter, all rows together; and the letters of a library name."""
    said: dict[str, str] = {}
    letters: dict[str, set[str]] = {}
    text = (ROOT / "book" / "notation.md").read_text("utf-8")
    for row in re.findall(r"^\| (\$.+?\$) \| (.+?) \|\s*(.*?)\s*\|$", text, re.M):
        for letter in re.findall(r"\\?\w+", row[0]):
            letter = letter.removeprefix("\\")
            said[letter] = f"{said.get(letter, '')} {row[1].lower()}"
            for name in re.findall(r"`(\w+)`", row[2]):
                letters.setdefault(name, set()).add(letter)
    return said, letters


def legend(text: str) -> list[tuple[str, str]]:
    """(letter, first word of its meaning) of each item in a docstring's legend."""
    found = []
    for line in text.splitlines():
        items = line.split(" · ")
        for item in items:
            match = ITEM.match(item.strip())
            letters = match[1].split(", ") if match else []
            alone = len(items) == 1 and letters in (["a"], ["A"], ["I"])  # a word, no letter
            if match and all(map(is_letter, letters)) and not alone:
                found += [(letter, match[2].lower()) for letter in letters]
    return found


def unpacked(tree: ast.AST) -> list[tuple[str, str]]:
    """(letter, name in the library) of assignments: L, h = whole("layers", layers), model.width."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        if len(targets) != len(values):
            continue
        for left, right in zip(targets, values, strict=True):
            if isinstance(left, ast.Name) and is_letter(left.id) and (name := source_name(right)):
                found.append((left.id, name))
    return found


def source_name(value: ast.expr) -> str:
    """The argument that a checked value comes from, or the field it reads; else empty."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args:
        first = value.args[0]
        checks = {"whole", "positive", "non_negative", "fraction", "divides"}
        if value.func.id in checks and isinstance(first, ast.Constant):
            return str(first.value)
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        return value.attr if value.value.id in {"model", "layout", "device"} else ""
    return ""


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


def test_a_legend_says_what_the_page_says():
    for module in MODULES:
        said, _ = page()
        text = ast.get_docstring(parsed(module)) or ""
        for letter, word in legend(text):
            assert letter in said, f"{module}: the page does not know {letter} {word}"
            assert word.rstrip("s") in said[letter], (
                f"{module}: {letter} {word}, but book/notation.md says: {said[letter]}"
            )


def test_a_letter_of_the_code_is_that_of_the_page():
    for module in MODULES:
        said, letters = page()
        tree = parsed(module)
        told = {letter for letter, _ in legend(ast.get_docstring(tree) or "")}
        for letter, name in unpacked(tree):
            wanted = letters.get(name)
            assert wanted is None or letter in wanted, (
                f"{module}: {letter} = {name}, but book/notation.md writes "
                f"{' or '.join(sorted(wanted))}"
            )
            if module.parent.name in FORMULAS and letter not in LOCAL:
                assert letter in told, (
                    f"{module}: {letter} ({name}) is used, and its legend is silent"
                )


def test_legends_and_unpacking_lines_are_found():
    trees = [parsed(module) for module in MODULES]
    legends = [legend(ast.get_docstring(tree) or "") for tree in trees]
    assert sum(map(len, legends)) > 100 and sum(map(bool, legends)) > 15
    assert sum(len(unpacked(tree)) for tree in trees) > 60
    said, letters = page()
    assert len(said) > 30 and letters["layers"] == {"L"}


def test_the_law_sees_a_wrong_letter():
    (wrong,) = unpacked(ast.parse("psi = positive('parameters', parameters)"))
    assert wrong == ("psi", "parameters") and page()[1]["parameters"] == {"P"}
    assert legend("Of a ring.\n\nN ranks · K payload in bytes") == [
        ("N", "ranks"),
        ("K", "payload"),
    ]


def test_the_glossary_is_in_the_order_of_the_alphabet():
    text = (ROOT / "book" / "glossary.md").read_text("utf-8").split("```{glossary}\n")[1]
    words = re.findall(r"(?:\A|\n\n)(\w.*)", text)  # other names stand beneath a word
    assert len(words) > 50 and words == sorted(words, key=str.lower)
