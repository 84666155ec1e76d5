"""mathlib prove: whether the ranks of a layout train what one process trains, exactly."""

from argparse import ArgumentParser, BooleanOptionalAction
from typing import TYPE_CHECKING, Any

from mathlib.checks import InputError
from mathlib.cli import terminal
from mathlib.cli.options import add_launch, add_layout, refuse_idle
from mathlib.cli.registry import command
from mathlib.cli.text import columns, counted, show, wrapped
from mathlib.cli.typed import Typed
from mathlib.layout import Layout
from mathlib.records import asdict

if TYPE_CHECKING:
    from mathlib.prover.case import Case
    from mathlib.prover.prove import Verdict

MOST_RANKS = 64  # what goes wrong with more goes wrong with these
MOST_PASSES = 2**14  # sequences through layers: a minute or two
NAMES = ("data", "tensor", "pipeline", "chunks", "expert", "micro_batch", "zero")


def prove_options(parser: ArgumentParser) -> None:
    add_layout(parser)
    group = parser.add_argument_group("what is trained, by whom")
    group.add_argument(
        "--schedule",
        metavar="NAME",
        help="of the pipeline: gpipe, 1f1b, interleaved, breadth-first, zb-h1, zb-h2, zb-v, "
        "dualpipe; 1f1b if not given, interleaved with chunks",
    )
    group.add_argument(
        "--context-order",
        default="zigzag",
        metavar="NAME",
        help="of context ranks: a zigzag or plain ring, or ulysses; zigzag if not given",
    )
    group.add_argument(
        "--tied",
        action=BooleanOptionalAction,
        default=True,
        help="whether the head reuses the embedding; it does if not said",
    )
    group.add_argument("--fault", metavar="NAME", help="shows how one thing done wrong is caught")
    group.add_argument("--faults", action="store_true", help="lists what can be done wrong")
    add_launch(parser)


@command(
    "prove",
    "whether the ranks of a layout train what one process trains: equal or not, exactly",
    "prove --tensor 2 --pipeline 2 --data 2 --zero 1",
    "prove --context-parallel 2 --data 2 --expert 4 --context-order ulysses",
    "prove --pipeline 4 --chunks 2 --micro-batches 8 --schedule interleaved",
    "prove --fault query-key-norm",
    "prove --faults",
    options=prove_options,
)
def prove_command(args: Typed) -> None:
    from mathlib.prover import faults
    from mathlib.prover.prove import prove

    if args.faults:
        return list_faults(args)
    if args.fault:
        fault = faults.find(args.fault)
        found = fault.proved()
        args.status = int(found.equal)  # that it is caught is the answer
        said = f"{fault.says}" + (f" ({fault.source})" if fault.source else "")
        return answered(args, fault.case(), found, said)
    case = case_of(args)
    found = prove(case)
    args.status = int(not found.equal)
    answered(args, case, found)


def case_of(args: Typed) -> "Case":
    """The layout that was typed, and what it trains."""
    from mathlib.prover.case import case

    m = args.pipeline if args.micro_batches is None else args.micro_batches
    degrees = {name: getattr(args, name) for name in NAMES}
    lay = Layout(
        **degrees,
        context=args.context_parallel,
        expert_tensor=args.expert_tensor or 0,
        shard=args.shard or 0,
        micro_batches=m,
        recompute=args.recompute,
        sequence_parallel=args.sequence_parallel,
    )
    refuse_size(lay)
    refuse_idle(args, lay, experts=True)
    args.assumed.clear()  # kernels, dropout: nothing that a layout has
    how: dict[str, Any] = {"order": args.context_order} if lay.context > 1 else {}
    if lay.pipeline > 1:
        how["schedule"] = args.schedule or ""
    return case(lay, tied=args.tied, **how)


def refuse_size(lay: Layout) -> None:
    """Refuse what proves nothing, and what proves no more than something smaller."""
    layers = max(2, lay.pipeline * lay.chunks)
    if lay.world == 1:
        raise InputError("1 rank: nothing to compare; expected such as --tensor 2 --pipeline 2")
    if lay.world > MOST_RANKS:
        raise InputError(
            f"{lay.world:,} ranks: expected at most {MOST_RANKS}; groups of 2 to 4 prove as much"
        )
    if lay.sequences * layers > MOST_PASSES:
        raise InputError(
            f"{lay.sequences:,} sequences through {layers:,} layers: expected a product of at most "
            f"{MOST_PASSES:,}; fewer prove as much"
        )


def answered(args: Typed, case: "Case", found: "Verdict", wrong: str = "") -> None:
    """What was compared, and what came of it."""
    verdict = "equal" if found.equal else f"not equal: {found.first}"
    if found.stuck:
        verdict = f"stuck: {found.stuck}"
    head = f"{case_words(case)}: {counted(found.ranks, 'rank')} beside one process"
    text = [terminal.paint(wrapped(head), "strong")]
    text += [wrapped(f"done wrong: {wrong}")] if wrong else []
    text += [terminal.paint(wrapped(verdict), "good" if found.equal else "bad")]
    data = proof_data(case, found) | ({"fault": wrong} if wrong else {})
    show(args, "\n\n".join([*text, wrapped(compared(case, found))]), data)


def proof_data(case: "Case", found: "Verdict") -> dict[str, Any]:
    """The same for programs."""
    return {
        "layout": asdict(case.layout),
        "schedule": case.schedule.name,
        "equal": found.equal,
        "first": found.first and found.first._asdict(),
        "differ": len(found.differences),
        "stuck": found.stuck or None,
        "ranks": found.ranks,
        "tensors": found.tensors,
        "numbers": found.numbers,
        "chance": found.chance,
    }


def case_words(case: "Case") -> str:
    """The layout, with the order of its pipeline and of its context ranks."""
    lay, words = case.layout, [layout_words(case.layout)]
    words += [case.schedule.name] if lay.pipeline > 1 else []
    return ", ".join([*words, *([case.order] if lay.context > 1 else [])])


def compared(case: "Case", found: "Verdict") -> str:
    """How much the verdict rests on."""
    from mathlib.prover.modular import PRIME

    net = case.network
    experts = f", {net.experts} experts" if net.experts else ""
    network = f"{net.layers} layers, {net.heads} heads, sequences of {net.tokens}{experts}"
    lines = [f"one step of SGD with momentum, numbers modulo 2^{PRIME.bit_length()} - 1: {network}"]
    if not found.stuck:
        differ = f"; {len(found.differences):,} differ" if found.differences else ""
        lines.append(
            f"compared: {found.tensors:,} tensors of {found.ranks} ranks, {found.numbers:,} "
            f"numbers: activations, their gradients, weights' gradients, momentum, weights{differ}"
        )
        lines.append(f"chance that a wrong layout looks right: at most {found.chance:.1g}")
    return "\n".join(lines)


def layout_words(lay: Layout) -> str:
    """Its degrees, where they are more than nothing."""
    told = asdict(lay) | {"zero": 0, "ZeRO stage": lay.zero and str(lay.zero)}
    if not lay.zero or lay.shard == lay.replicas:
        told["shard"] = 0
    if lay.sequence_parallel:
        told["sequence_parallel"] = ""
    words = [f"{name} {n}" for name, n in told.items() if n not in (0, 1, "none")]
    return ", ".join(words).replace("_", " ").replace(" ,", ",")


def list_faults(args: Typed) -> None:
    """What is done wrong, of which kind of parallelism, and a thread where somebody did."""
    from mathlib.prover import faults

    every = faults.every().values()
    rows = [(one.name, one.axis, one.says, one.source) for one in every]
    table = columns(("fault", "of", "what is wrong", "seen in"), rows)
    names = ("name", "axis", "says", "first", "source")
    data = [{name: getattr(one, name) for name in names} for one in every]
    told = f"{len(rows)} faults; `mathlib prove --fault NAME` shows one caught"
    show(args, f"{table}\n\n{wrapped(told)}", {"faults": data})
