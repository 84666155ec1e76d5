"""Flags of a script that hands them to Hugging Face's Trainer: those that change memory or time.

Names as in transformers' training_args.py; a script of one's own may know others, which are named.
"""

from mathlib.checks import InputError
from mathlib.cli.flags import Flags, number
from mathlib.cli.typed import Typed

NUMBERS = {
    "per_device_train_batch_size": "micro_batch",
    "gradient_accumulation_steps": "micro_batches",
}
FSDP = {"full_shard": 3, "shard_grad_op": 2, "no_shard": 0}
OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused")
UNCOUNTED = ("fp8", "torch_compile", "optim", "use_peft", "lora_r", "load_in_4bit", "load_in_8bit")


def read(typed: Typed, flags: Flags, half: str) -> None:
    """Put what they say in place of what was not typed; `half`: the recipe that 16 bits are."""
    for given, values in flags.items():
        name, flag, word = given.replace("-", "_"), f"--{given}", " ".join(values).lower()
        if name in NUMBERS:
            typed.take(NUMBERS[name], number(flag, values), flag)
        elif name == "gradient_checkpointing" and word != "false":
            typed.take("recompute", "full", flag)
        elif name in ("bf16", "fp16") and word != "false":
            typed.take("recipe", half, flag)
        elif name == "fsdp" and word:
            _sharded(typed, flag, word.split())
        elif name in UNCOUNTED and word != "false" and word not in OPTIMIZERS:
            typed.uncounted.append(f"{flag} {word}".strip())
        else:
            typed.ignored.append(flag)


def _sharded(typed: Typed, flag: str, words: list[str]) -> None:
    """FSDP by its strategy; what it offloads is not modelled."""
    stages = [FSDP[word] for word in words if word in FSDP]
    if not stages:
        raise InputError(f"{flag} {' '.join(words)}: expected one of {', '.join(FSDP)}")
    typed.take("zero", stages[0], flag)
    typed.default("program", "fsdp-eager")
    if rest := [word for word in words if word not in FSDP and word != "auto_wrap"]:
        typed.uncounted.append(f"{flag} {' '.join(rest)}")
