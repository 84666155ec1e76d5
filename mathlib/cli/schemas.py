"""mathlib schema: the form of every command's --json, as JSON Schema; here and nowhere else.

A number always has its unit beside it, or the unit of the whole stands once. Units are base units:
byte, FLOP, FLOP/s, byte/s, second, token, parameter; ratio where there is none.
"""

from argparse import ArgumentParser
from typing import Any

from mathlib.checks import InputError
from mathlib.cli.registry import MODULES, command
from mathlib.cli.text import show
from mathlib.cli.typed import Typed

Schema = dict[str, Any]
TEXT, NUMBER, WHOLE, FLAG = ({"type": t} for t in ("string", "number", "integer", "boolean"))
NULL: Schema = {"type": "null"}


def of(optional: tuple[str, ...] = (), /, **fields: Schema) -> Schema:
    """An object with these fields and no others."""
    required = [name for name in fields if name not in optional]
    closed = {"additionalProperties": False, "required": required}
    return {"type": "object", "properties": fields} | closed


def each(inner: Schema) -> Schema:
    """An object whose names are data."""
    return {"type": "object", "additionalProperties": inner}


def many(inner: Schema) -> Schema:
    return {"type": "array", "items": inner}


def either(*inner: Schema) -> Schema:
    return {"anyOf": list(inner)}


FACT = of(value=NUMBER, unit=TEXT)
PARTS = of(
    title=TEXT,
    unit=TEXT,
    total=NUMBER,
    parts=each(either(NUMBER, {"$ref": "#/$defs/parts"})),
)
FLAGS = of(
    read=each(TEXT), assumed=many(TEXT), ignored=many(TEXT), unknown=many(TEXT)
)  # of another program
DEFS = {"parts": PARTS}
SUM = PARTS | {  # what params, flops, memory, kv, roles, time and comm step answer
    "properties": PARTS["properties"]
    | {"also": each(FACT), "verdict": either(TEXT, NULL), "ways": many(TEXT), "flags": FLAGS}
    | {"keeps": TEXT},
    "required": [*PARTS["required"], "also", "verdict"],
}
LAYOUT = each(either(NUMBER, TEXT, FLAG))
CHOICE = of(
    ("run", "prices"),
    layout=LAYOUT,
    offload=TEXT,
    step=FACT,
    memory=FACT,
    risk=NUMBER,
    mfu=NUMBER,
    reason=TEXT,
    run=FACT,  # whole, with saves and failures
    prices=each(NUMBER),  # of it, by how devices are rented
)
INTERVAL = of(low=NUMBER, high=NUMBER, runs=WHOLE, sources=WHOLE)
ANSWER = of(
    ("step", "memory", "risk", "offload", "between", "also"),
    also=each(FACT),  # of the whole run
    what=TEXT,
    value=WHOLE,
    layout=either(LAYOUT, NULL),
    step=NUMBER,  # seconds
    memory=NUMBER,  # bytes
    risk=NUMBER,
    offload=TEXT,
    between=INTERVAL,
    beyond=either(TEXT, NULL),
    complete=FLAG,
)
ROW = {"type": "object", "required": ["name", "source"]}  # a row of a data file, its fields
FORMULA = of(
    what=TEXT,
    formula=TEXT,
    letters=each(NUMBER),
    numbers=TEXT,
    result=NUMBER,
    value=NUMBER,
    unit=TEXT,
    place=TEXT,
)
PLACE = of(
    **dict.fromkeys(("function", "says", "chapter", "equation", "section"), TEXT),
    **dict.fromkeys(("runs", "experiments", "tests"), many(TEXT)),
)
DIFFERENCE = of(name=TEXT, unit=TEXT, values=many(either(NUMBER, NULL)), ratio=either(NUMBER, NULL))
COUNTED = of(
    name=TEXT,
    title=TEXT,
    flop_per_token=NUMBER,
    printed=FACT,
    mfu=NUMBER,
    hfu=either(NUMBER, NULL),
    counts=each(TEXT),
    source=TEXT,
)
PLACED = of(
    **dict.fromkeys(("kind", "tensor"), TEXT),
    **dict.fromkeys(("rank", "row", "column"), WHOLE),
    micro_batch=either(WHOLE, NULL),
)
PROOF = of(
    ("fault",),
    fault=TEXT,  # what was done wrong
    layout=LAYOUT,
    schedule=TEXT,
    equal=FLAG,
    first=either(PLACED, NULL),
    differ=WHOLE,  # tensors of a rank
    stuck=either(TEXT, NULL),
    **dict.fromkeys(("ranks", "tensors", "numbers"), WHOLE),  # compared
    chance=NUMBER,  # that a wrong layout looks right
)
WRONG = of(**dict.fromkeys(("name", "axis", "says", "first", "source"), TEXT))
TASK = of(
    ("hint",),
    **dict.fromkeys(("name", "title", "chapter", "task", "start", "hint"), TEXT),
    grade=WHOLE,  # 1 to 4
    thread=either(TEXT, NULL),  # where a fault of the clinic was found
)
MARK = of(
    ("real",),
    real=many(of(says=TEXT, wrong=either(TEXT, NULL), sent=FACT)),  # on processes
    puzzle=TEXT,
    right=FLAG,
    first=either(TEXT, NULL),  # what is wrong
    tests=many(of(says=TEXT, wrong=either(TEXT, NULL), took=each(FACT), most=each(FACT))),
)
MARKS = of(
    solutions=many(of(file=TEXT, puzzle=TEXT, right=FLAG, first=either(TEXT, NULL))),
    left_out=many(TEXT),  # files that are not called as a puzzle is
)
PUZZLES = of(puzzles=many(of(name=TEXT, grade=WHOLE, chapter=TEXT, title=TEXT)))
SCHEMAS: dict[str, Schema] = {
    "params": SUM,
    "flops": SUM,
    "memory": SUM,
    "kv": SUM,
    "roles": SUM,
    "time": SUM,
    "comm": either(SUM, each(FACT) | {"properties": {"flags": FLAGS}}),
    "groups": of(unit=TEXT, sizes=each(WHOLE), groups=each(many(many(WHOLE)))),
    "prove": either(PROOF, of(faults=many(WRONG))),
    "grade": either(TASK, MARK, MARKS, PUZZLES),
    "mfu": of(("flags",), title=TEXT, also=each(FACT), conventions=many(COUNTED), flags=FLAGS),
    "cost": of(("flags",), title=TEXT, also=each(FACT), flags=FLAGS),
    "fit": of(("flags",), answers=many(ANSWER), flags=FLAGS),
    "plan": of(
        ("flags", "enough", "also"),
        also=each(FACT),  # of the whole run in the first layout
        enough=either(WHOLE, NULL),  # devices that would do, where so many do not
        title=TEXT,
        keeps=TEXT,
        tried=WHOLE,
        fitting=WHOLE,
        complete=FLAG,
        full=each(WHOLE),
        between=either(INTERVAL, NULL),
        layouts=many(CHOICE),
        flags=FLAGS,
    ),
    "slower": SUM,
    "compare": of(one=TEXT, other=TEXT, rows=many(DIFFERENCE)),
    "why": of(of=TEXT, formulas=many(FORMULA)),
    "models": many(ROW),
    "devices": of(units=each(TEXT), devices=many(ROW)),
    "clusters": of(units=each(TEXT), clusters=many(ROW)),
    "recipes": many(ROW),
    "runs": many(ROW),
    "layouts": many(ROW),
    "prices": of(unit=TEXT, prices=many(ROW)),
    "where": many(PLACE),
    "schema": {"type": "object"},
}


def schema_of(name: str) -> Schema:
    """The form of one command's answer, whole."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"mathlib {name}"}
    return head | SCHEMAS[name] | {"$defs": DEFS}


def schema_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="a command; all if not given")


@command(
    "schema",
    "the form of --json, as JSON Schema",
    "schema memory",
    "schema",
    options=schema_options,
)
def schema_command(args: Typed) -> None:
    import json

    if args.name and args.name not in MODULES:
        raise InputError(f"{args.name!r} is no command: expected {', '.join(MODULES)}")
    names = [args.name] if args.name else list(MODULES)
    found = {name: schema_of(name) for name in names}
    data = found[args.name] if args.name else found
    show(args, json.dumps(data, indent=2), data)
