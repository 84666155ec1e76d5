"""mathlib why time: every part of a step's time as a formula with the planner's own numbers.

D tokens of a whole run · B sequences · s tokens · T time of a step
"""

from collections.abc import Iterator

from mathlib.cli.options import layout_of, model_of
from mathlib.cli.steps import machine_of
from mathlib.cli.typed import Typed
from mathlib.cli.why import Formula, line


def formulas(args: Typed) -> Iterator[Formula]:
    """A line for each part, one for their sum, and one for a whole run where that was asked."""
    from mathlib.plan import step
    from mathlib.plan.laws import LAWS, ON_HOST

    model = model_of(args)
    lay, on = layout_of(args, model, uneven=True), machine_of(args, model)
    parts = step.step(on, lay, offload=args.offload)
    letters = step.letters(on, lay, offload=args.offload)
    place = "plan.step.letters (eq-plan-step)"
    for name in parts:
        part = ON_HOST if name == "optimizer" and ON_HOST in letters else name
        text, words = LAWS[part]
        right = text.partition("=")[2].strip().replace("**", "^")
        yield line(f"{name}. {words}", right, letters[part], parts.amount(name), "second", place)
    terms = {chr(ord("A") + i): parts.amount(name) for i, name in enumerate(parts)}
    title = f"a step of {args.program} on {on.cluster.title}: {', '.join(parts)}"
    yield line(title, " + ".join(terms), terms, parts.total, "second", "plan.step.step")
    if args.train is not None:
        of_step = {"B": lay.sequences, "s": on.tokens, "T": parts.total}
        took = args.train / (lay.sequences * on.tokens) * parts.total
        of_run = of_step | {"D": args.train}
        what = "a whole run of so many tokens"
        yield line(what, "D / (B * s) * T", of_run, took, "second", "mathlib time")
