"""mathlib memory: what one device holds while training."""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from mathlib.checks import InputError, one_of, positive
from mathlib.cli.adapting import adapters_of, add_adapters, keeps_words
from mathlib.cli.amounts import NUMBER
from mathlib.cli.hosts import HOST, KINDS, NVME, add_places, judged, waits
from mathlib.cli.options import (
    add_depth,
    add_device,
    add_layout,
    add_model,
    add_reserve,
    add_tokens,
    device_of,
    layout_of,
    model_of,
    named,
    reserve_of,
)
from mathlib.cli.registry import command
from mathlib.cli.text import Fact, answer
from mathlib.cli.typed import Typed
from mathlib.parts import Parts
from mathlib.records import replace
from mathlib.specs import Device, Layout, Model, table
from mathlib.units import show as shown

if TYPE_CHECKING:  # loaded when a command needs it
    from mathlib.memory.fit import Verdict

NODE = 8  # devices of a node, where none is named


def memory_options(parser: ArgumentParser) -> None:
    add_model(parser)
    add_tokens(parser)
    add_layout(parser)
    add_saving(parser)
    add_adapters(parser)
    parser.add_argument(
        "--program",
        metavar="NAME",
        help="whose kernels and copies count, as `mathlib time` does; PyTorch's own operations if "
        "not given",
    )
    parser.add_argument(
        "--pipeline-stage",
        type=NUMBER,
        metavar="N",
        help="a stage, counted from 0; the fullest if not given",
    )
    add_device(parser)
    add_reserve(parser)
    add_places(parser)
    add_depth(parser)


def add_saving(parser: ArgumentParser) -> None:
    """What a program keeps of a parameter and of an activation."""
    parser.add_argument(
        "--recipe",
        metavar="NAME",
        help="copies of a parameter, by a name that `mathlib recipes` lists; mixed-adam, or the "
        "program's own, if not given",
    )
    parser.add_argument(
        "--attention", metavar="KIND", help="standard or flash; the model's own if not given"
    )
    parser.add_argument(
        "--dropout",
        action=BooleanOptionalAction,
        help="keep dropout's masks, or none; as the model was trained if not given",
    )


def saving_of(args: Typed, model: Model) -> dict[str, Any]:
    """The same as the library's options."""
    recipe = recipe_named(args.recipe or "mixed-adam")
    how = {"recipe": recipe, "attention": args.attention, "dropout": args.dropout}
    return how | ({} if args.tokens is None else {"tokens": args.tokens})


def recipe_named(text: str) -> str:
    """A recipe that states can be counted by without the shapes of the matrices."""
    rows = table("recipes")
    told = "; `mathlib recipes` lists all, with their bytes"
    if text.lower() == "adamw":
        raise InputError(f"--recipe {text}: keeps what Adam keeps; mixed-adam is the usual{told}")
    name = named("recipes", "recipe", text)
    if rows[name].get("second_moment") == "factored":
        raise InputError(
            f"--recipe {text}: its states depend on the shape of each matrix, which this command "
            f"does not go through{told}"
        )
    return name


@command(
    "memory",
    "bytes on one device while training: states, activations, logits",
    "memory llama2-7b --zero 3 --data 8",
    "memory gpt3-175b --tensor 8 --pipeline 16 --micro-batches 64 --sequence-parallel",
    "memory gpt2 --micro-batch 4 --memory 24GB",
    "memory llama3-70b --lora 16 --qlora --tokens 2048 --recompute full --memory 80GB",
    "memory llama3-70b --lora 16 --zero 3 --data 8 --recompute full --device a100-80gb",
    "memory llama3-8b --recipe mixed-muon --zero 1 --data 8",
    "memory llama2-13b --device rtx-4090 --recompute full --offload parameters --nvme 2TB",
    'memory gpt3-175b --megatron "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8"',
    options=memory_options,
)
def memory_command(args: Typed) -> None:
    model = model_of(args)
    lay = layout_of(args, model, uneven=True)
    counted = (adapted if args.lora is not None else planned if program_of(args) else operations)(
        args, model, lay
    )
    parts = counted.held(lay)
    facts: list[Fact] = [
        ("devices", lay.world, ""),
        ("micro-batches", lay.micro_batches, ""),
        ("tokens of a sequence", int(args.tokens or model.context), "token"),
        ("tokens of a step", lay.sequences * int(args.tokens or model.context), "token"),
    ]
    there = device_of(args)
    if there is None:
        facts += [(f"waits on the {place}", size, "byte") for place, size in counted.waits.items()]
        return answer(args, parts, facts, keeps=counted.keeps)
    verdict, told, more = judge(args, lay, parts, there, counted)
    ways = [] if verdict else list(ways_out(lay, verdict.memory, counted.held))
    if not verdict and args.lora and args.qlora is None:
        packed = adapted(args, model, lay, packed=True).held(lay).total
        fits = "fits" if packed <= verdict.memory else "still too much"
        ways.insert(
            0, f"with --qlora{' sharded' * (lay.zero == 3)}: {shown(packed, 'byte')}, {fits}"
        )
    answer(args, parts, facts + more, verdict=told, ways=ways, keeps=counted.keeps)


def judge(
    args: Typed, lay: Layout, parts: Parts, there: Device | float, counted: "Counted"
) -> tuple["Verdict", str, list[Fact]]:
    """Whether device, host and drives have room, how likely the device has not, and by how much."""
    from mathlib.cli import steps
    from mathlib.memory import fit

    program, size = program_of(args), there.room if isinstance(there, Device) else there
    reserve = reserve_of(args, size, program or "usual")
    verdict = fit.fits(parts, there, reserve=reserve)
    facts: list[Fact] = [
        ("room", size, "byte"),
        ("left free for context, buffers and fragments", reserve, "byte"),
        ("left", verdict.memory - verdict.needed, "byte"),
    ]
    runs = "runs with adapters" if args.lora else "runs"
    told, risk = at_risk(verdict, "adapters" if args.lora else program, runs)
    facts += risk
    nodes = steps.nodes_of(there.name) if isinstance(there, Device) else None
    room = {HOST: nodes.host_memory if nodes else 0.0}
    for place, name in ((HOST, "host_memory"), (NVME, "nvme")):
        if place in counted.waits and getattr(args, name) is not None:
            room[place] = positive(name, getattr(args, name))
    node = min(lay.world, nodes.devices_per_node if nodes else NODE)
    told, more = judged(told, counted.waits, room, node)
    return verdict, told, facts + more


def at_risk(verdict: "Verdict", program: str | None, runs: str) -> tuple[str, list[Fact]]:
    """A verdict, and how many runs that are predicted like it are too much all the same; nothing
    more where the reserve alone is too much.
    """
    from mathlib.plan.calibration import out_of_memory

    if verdict.memory <= 0:
        return str(verdict), []
    risk = out_of_memory(needed=verdict.needed, memory=verdict.memory, program=program)
    told = f"{verdict}; {risk:.0%} of {runs} predicted like it are too much"
    return told, [("chance that it is too much", risk, "")]


class Counted(NamedTuple):
    """What was counted, and how."""

    held: Callable[[Layout], Parts]  # by a device
    keeps: str  # by whose conventions
    waits: dict[str, float]  # bytes of a device that wait outside, by place


def program_of(args: Typed) -> str | None:
    """Whose copies count: DeepSpeed's where something waits outside the device and nobody says."""
    return args.program or (None if args.offload == "none" else "deepspeed")


def operations(args: Typed, model: Model, lay: Layout) -> Counted:
    """What PyTorch's own operations keep of a layout."""
    from mathlib.memory import fit

    how = saving_of(args, model)

    def held(lay: Layout) -> Parts:
        return fit.training(model, lay, stage=args.pipeline_stage, **how)

    return Counted(held, counted_as(model, how["recipe"]), {})


def adapted(args: Typed, model: Model, lay: Layout, packed: bool = False) -> Counted:
    """What one device keeps of a model that is frozen, and of the adapters that are trained."""
    from mathlib.memory import adapters
    from mathlib.plan.adapted import ALONE, refuse_split

    for name, wanted in (("attention", "flash"), ("program", None), ("offload", "none")):
        if args.value(name) not in (None, wanted):
            raise InputError(
                f"--{name} {args.value(name)}: with --lora expected "
                f"{wanted or 'PyTorch alone, without one'}"
            )
    recipe, own = recipe_named(args.recipe or "mixed-adam"), adapters_of(args)
    assert own is not None

    def held(lay: Layout) -> Parts:
        refuse_split({axis: getattr(lay, axis) for axis in ALONE})
        return adapters.sharded(
            model,
            devices=lay.shard if lay.zero else 1,
            zero=lay.zero,
            rank=own.rank,
            targets=own.targets,
            quantised=own.packed or packed,
            whole_bits=own.bits == "4",
            recipe=recipe,
            micro_batch=lay.micro_batch,
            tokens=args.tokens,
            recompute=lay.recompute,
            dropout=bool(args.dropout),
        )

    return Counted(held, keeps_words(args), {})


def planned(args: Typed, model: Model, lay: Layout) -> Counted:
    """What a program keeps of a layout, as `mathlib time` and `plan` count it."""
    from mathlib.cli import steps
    from mathlib.plan.room import HELD, Room, find_keeps
    from mathlib.plan.wording import kept_words
    from mathlib.plan.work import OFFLOAD, UNTIMED

    recipe = None if args.recipe is None else recipe_named(args.recipe)
    program = program_of(args) or "deepspeed"
    keeps, s = find_keeps(program), model.reach(int(args.tokens or model.context))
    attention, dropout = args.attention or "flash", bool(args.dropout)
    room = Room(model, s, recipe, keeps, attention=attention, dropout=dropout)
    every = OFFLOAD | UNTIMED
    away = every[one_of("offload", args.offload, every)]
    title = f"{model.title}, the fullest device of {program}"

    def held(lay: Layout) -> Parts:
        if away.weights and lay.zero < 3 and lay.replicas > 1:
            raise InputError(
                f"--offload {args.offload}: only ZeRO 3 lets parameters wait (--zero 3)"
            )
        amounts = zip(HELD, room.parts(lay, away), strict=True)
        return Parts(title, "byte", {name: amount for name, amount in amounts if amount})

    typed = args.value("nvme") is not None and "offload" not in args.read
    waiting = waits(room, lay, away, args.on_nvme or (KINDS if typed else ()))
    return Counted(held, steps.counted_as(program, kept_words(program, args.recipe)), waiting)


def counted_as(model: Model, recipe: str) -> str:
    """By whose conventions memory was counted, and where others are used."""
    gate = ", a gate's matmul not fused" if model.gated else ""
    other = "`mathlib plan`, `time` and `fit` count the kernels and copies of a --program, and say "
    other += "how often such a run is too much"
    return f"memory counted as PyTorch's own operations fill it: {recipe}{gate}\n{other}"


def ways_out(lay: Layout, memory: float, held: Callable[[Layout], Parts]) -> Iterator[str]:
    """What each single change would need, of as many devices and sequences."""
    for words, change in _changes(lay):
        try:
            needed = held(replace(lay, **change)).total
        except InputError:
            continue
        fits = "fits" if needed <= memory else "still too much"
        yield f"with {words}: {shown(needed, 'byte')}, {fits}"


def _changes(lay: Layout) -> Iterator[tuple[str, dict[str, Any]]]:
    """Single changes that make room, the cheap ones first."""
    if lay.world == 1:
        yield "--zero 3 --data 8 (8 devices)", {"zero": 3, "data": 8, "shard": 0}
        yield "--tensor 8 (8 devices)", {"tensor": 8}
    if lay.replicas > 1:
        for zero in range(lay.zero + 1, 4):
            yield f"--zero {zero}", {"zero": zero}
    if lay.micro_batch > 1 and lay.micro_batch % 2 == 0:
        half = {"micro_batch": lay.micro_batch // 2, "micro_batches": lay.micro_batches * 2}
        words = f"--micro-batch {half['micro_batch']} --micro-batches {half['micro_batches']}"
        yield words, half
    if lay.tensor > 1 and not lay.sequence_parallel:
        yield "--sequence-parallel", {"sequence_parallel": True}
    if lay.recompute != "full":
        yield "--recompute full", {"recompute": "full"}
    for axis in ("tensor", "pipeline"):
        if lay.data % 2 == 0:
            size, m = getattr(lay, axis) * 2, lay.micro_batches * 2
            change = {axis: size, "data": lay.data // 2, "shard": 0, "micro_batches": m}
            yield f"--{axis} {size} --data {lay.data // 2} --micro-batches {m}", change
