"""Lines that start a run on many processes: how many there are, and the words of the script."""

from typing import NamedTuple

from mathlib.checks import InputError
from mathlib.cli.flags import number, unknown, words_of
from mathlib.cli.typed import Typed
from mathlib.specs import table

PROGRAMS = {  # words of a line by which a launcher is known
    "torchrun": "torchrun",
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate": "accelerate",
    "accelerate.commands.launch": "accelerate",
    "deepspeed": "deepspeed-launcher",
    "deepspeed.launcher.runner": "deepspeed-launcher",
}
SHORT = {"m": "module", "H": "hostfile", "i": "include", "e": "exclude"}


class Launch(NamedTuple):
    """What a line starts."""

    flag: str  # by which its processes are told, for a refusal
    world: int  # processes; 0: nobody told
    script: list[str]  # the words behind the script's name


def read(typed: Typed, text: str) -> Launch:
    """What a line of torchrun or deepspeed starts; what it says besides is named as ignored."""
    words = words_of(text, "--torchrun")
    at = next((i for i, word in enumerate(words) if word.rpartition("/")[2] in PROGRAMS), -1)
    if at < 0 and not words[0].startswith("-"):
        raise InputError(
            f"--torchrun {words[0]}: expected a line of torchrun, deepspeed or accelerate launch"
        )
    program = PROGRAMS[words[at].rpartition("/")[2]] if at >= 0 else "torchrun"
    words = words[at + 1 :]
    if program == "accelerate":
        return _accelerate(typed, words[words[:1] == ["launch"] :])
    said, script = _options(typed, program, words)
    return (_torchrun if program == "torchrun" else _deepspeed)(said, script)


def _options(typed: Typed, program: str, words: list[str]) -> tuple[dict[str, str], list[str]]:
    """The launcher's own options, and the words behind the script."""
    row, said = table("launches")[program], {}
    while words and words[0].startswith("-"):
        flag, _, value = words.pop(0).partition("=")
        name = flag.lstrip("-").replace("_", "-")
        name = SHORT.get(name, name)
        if name not in row["flags"]:
            unknown(typed, program, name, flag)
            raise InputError(f"{flag}: {row['title']} has none such; expected its own options")
        if not value and name not in row["switches"] and words:
            value = words.pop(0)
        if name in row.get("counts", row["flags"]):
            said[name] = value
        else:
            typed.ignored.append(flag)
    return said, words[1:]


def _accelerate(typed: Typed, words: list[str]) -> Launch:
    """--num_processes in all, of the line or of its file, whose other settings count too."""
    from mathlib.cli import accelerate  # only its line needs it

    said, script = _options(typed, "accelerate", words)
    path = said.pop("config-file", "")
    said = (accelerate.file("--config_file", path) if path else {}) | said
    file = said.get("deepspeed-config-file", "")
    world = accelerate.read(typed, said)
    if not world and typed.value("accelerate") is None:
        told = "takes all devices that it finds; say --num_processes how many"
        raise InputError(f"accelerate launch: {told}")
    return Launch("num_processes", world, [*(["--deepspeed", file] if file else []), *script])


def _torchrun(said: dict[str, str], script: list[str]) -> Launch:
    """One process on one node, if nothing else is said."""
    n = [number(f"--{name}", [said.get(name, "1")]) for name in ("nnodes", "nproc-per-node")]
    return Launch("--nnodes x --nproc-per-node", n[0] * n[1], script)


def _deepspeed(said: dict[str, str], script: list[str]) -> Launch:
    """--num_gpus of --num_nodes, or the slots that --include lists."""
    if "num-gpus" in said:
        n = [number(f"--{name}", [said.get(name, "1")]) for name in ("num-nodes", "num-gpus")]
        return Launch("--num_nodes x --num_gpus", n[0] * n[1], script)
    hosts = [one.partition(":")[2] for one in said.get("include", "").split("@")]
    if not all(hosts):
        raise InputError("deepspeed: takes all devices that it finds; say --num_gpus how many")
    return Launch("--include", sum(len(slots.split(",")) for slots in hosts), script)
