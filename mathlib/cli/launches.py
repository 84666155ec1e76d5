"""Launch lines and files of other programs, read as they are, in place of what was not typed.

What has no part in an answer is named as ignored, what the program's own list (data/launches.toml)
lacks as unknown. What changes memory or time and is not modelled ends without an answer.
"""

from functools import cache
from math import prod

from mathlib.checks import InputError
from mathlib.cli import megatron
from mathlib.cli.flags import Flags, flags_of, number, words_of
from mathlib.cli.megatron import divided
from mathlib.cli.typed import Typed
from mathlib.specs import Model

FILES = ("deepspeed", "deepspeed_config", "deepspeed-config")  # a script's flags for the file
UNCOUNTED = (
    "changes memory or time and is not counted here, so there is no answer; without it there is"
)


def read(typed: Typed) -> None:
    """Put what the flags say in place of what was not typed."""
    script, world, by = _started(typed)
    flags = flags_of([*script, *_words(typed)], "--megatron")
    flags |= _fields(typed, flags)
    files = {name: flags.pop(name) for name in FILES if name in flags}
    if _of_megatron(typed) or megatron.known(flags):
        megatron.read(typed, flags, cache(lambda: _named(typed)))
        typed.default("program", "megatron-core")
    else:
        _trainer(typed, flags, files)
        flags = {}
    batch = _file(typed, files)
    if typed.value("accelerate") is not None:
        there = _accelerated(typed)
        if world and there and world != there:
            raise InputError(f"num_processes: {there} and {by} ({world}) differ; leave one out")
        world, by = world or there, by or "num_processes"
    if typed.value("torchtitan") is not None:
        from mathlib.cli import torchtitan  # only its file needs it

        batch = torchtitan.read(typed, typed.torchtitan) or batch
    if world:
        _spread(typed, world, by)
    if batch:
        _batch_of_file(typed, batch)
    if "global-batch-size" in flags:
        flag = "--global-batch-size"
        _batch(typed, flag, number(flag, flags["global-batch-size"]))
    _known_degrees(typed, flags)
    if typed.knows("program") or typed.knows("recipe"):
        typed.refuse_uncounted(UNCOUNTED)


def _started(typed: Typed) -> tuple[list[str], int, str]:
    """The script's words, the processes and the flags that tell them."""
    if typed.value("torchrun") is None:
        return [], 0, ""
    from mathlib.cli import launchers  # only a launch line needs it

    found = launchers.read(typed, typed.torchrun)
    return found.script, found.world, found.flag


def _words(typed: Typed) -> list[str]:
    return [] if typed.value("megatron") is None else words_of(typed.megatron, "--megatron")


def _trainer(typed: Typed, flags: Flags, files: Flags) -> None:
    """A script that is not Megatron-LM's; DeepSpeed keeps 16-bit weights, autocast does not."""
    from mathlib.cli import trainer  # only a script's flags need it

    with_file = bool(files) or typed.value("deepspeed") is not None
    trainer.read(typed, flags, "mixed-adam" if with_file else "adam-fp32")


def _of_megatron(typed: Typed) -> bool:
    return typed.value("megatron") is not None or typed.value("bridge") is not None


def _fields(typed: Typed, flags: Flags) -> Flags:
    """Megatron-Bridge's fields as flags; refused where a flag says something else."""
    if typed.value("bridge") is None:
        return {}
    from mathlib.cli import bridge  # only its fields need it

    found = bridge.flags_of(typed, typed.bridge)
    for name in found.keys() & flags.keys():
        if found[name] != flags[name]:
            raise InputError(f"--{name}: --megatron and --bridge differ; leave one out")
    return found


def _accelerated(typed: Typed) -> int:
    """The processes of accelerate's YAML."""
    from mathlib.cli import accelerate, deepspeed  # only its file needs them

    said = accelerate.file("--accelerate", typed.accelerate)
    if "deepspeed-config-file" in said:
        deepspeed.read(typed, said["deepspeed-config-file"])
    return accelerate.read(typed, said)


def _file(typed: Typed, script: Flags) -> int | None:
    """DeepSpeed's file, typed or named by the script; the sequences of a step, if it tells."""
    said = [typed.deepspeed] if typed.value("deepspeed") is not None else []
    said += [" ".join(script[name]) for name in FILES if script.get(name)]
    if not said:
        return None
    from mathlib.cli import deepspeed  # only its file needs it

    batch: int | None = deepspeed.read(typed, said[0])
    if not _of_megatron(typed):
        typed.default("program", "deepspeed")
    return batch


def _named(typed: Typed) -> Model | None:
    """The model that is named, whose sizes hold where no flag says another."""
    from mathlib.cli.options import named_model

    name = typed.value("model") or typed.value("config")
    return named_model(name) if name else None


def _known_degrees(typed: Typed, flags: Flags) -> None:
    """What follows from Megatron-LM's flags once the degrees are known."""
    if _of_megatron(typed) or flags:
        megatron.shards(typed, flags)
        megatron.overlap(typed, flags)


def _batch(typed: Typed, flag: str, sequences: int) -> None:
    """Micro-batches of a layout that is given, or the batch of one that is looked for."""
    if typed.knows("batch"):
        typed.take("batch", sequences, flag)
    elif typed.knows("micro_batches"):
        each = _degree(typed, "micro_batch") * _degree(typed, "data")
        divided(typed, "micro_batches", flag, sequences, each)
    else:
        typed.ignored.append(flag)


def _batch_of_file(typed: Typed, sequences: int) -> None:
    """Of replicas, micro-batches and their size the one that nobody says."""
    if not typed.knows("micro_batches"):
        return _batch(typed, "train_batch_size", sequences)
    name, three = "train_batch_size", ("data", "micro_batches", "micro_batch")
    unsaid = [one for one in three if one not in typed.given | typed.read.keys()]
    each = prod(_degree(typed, one) for one in three if one not in unsaid[:1])
    if unsaid:
        divided(typed, unsaid[0], name, sequences, each)
    elif each != sequences:
        raise InputError(f"{name}: {sequences}, but replicas and micro-batches make it {each}")


def _degree(typed: Typed, name: str) -> int:
    """A degree; 1 where the command has none."""
    return int(typed.value(name) or 1)


def _spread(typed: Typed, world: int, flag: str) -> None:
    """What data parallelism is left, of all ranks; or the devices for which a layout is looked."""
    if typed.knows("batch"):
        return typed.take("devices", world, flag)
    each = 1
    for name in ("tensor", "pipeline", "context_parallel"):
        each *= _degree(typed, name)
    divided(typed, "data", flag, world, each)
