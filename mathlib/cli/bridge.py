"""Fields of a Megatron-Bridge recipe, as key=value, as the flags of Megatron-LM that they are."""

from mathlib.checks import InputError
from mathlib.cli.flags import Flags, words_of
from mathlib.cli.typed import Typed
from mathlib.from_config.files import contents

OTHER = {  # fields that Megatron-LM's flags call otherwise, and what their values mean
    "num_moe_experts": "num-experts",
    "sequence_length": "seq-length",
    "gated_linear_unit": "swiglu",
    "grad_reduce_in_fp32": "accumulate-allreduce-grads-in-fp32",
}
UNLESS = {  # fields that are flags where they are false
    "share_embeddings_and_output_weights": "untie-embeddings-and-output-weights",
    "add_bias_linear": "disable-bias-linear",
    "grad_reduce_in_fp32": "grad-reduce-in-bf16",
}
ASIDE = ("checkpoint", "logger", "scheduler", "tokenizer", "rng", "profiling", "validation")
RECIPES: Flags = {  # what recipes of Bridge have where nothing else is said
    **{name: [] for name in ("bf16", "use-distributed-optimizer", "overlap-grad-reduce")},
    **{"overlap-param-gather": [], "hidden-dropout": ["0"], "attention-dropout": ["0"]},
}
TOLD = "a recipe's bf16, sharded optimizer, overlap of gradients and weights, no dropout"


def flags_of(typed: Typed, text: str) -> Flags:
    """The flags that the fields are, of a file or of words; with what recipes have besides."""
    if "=" not in text:
        try:
            text = contents(text, f"--bridge {text}", "text")
        except InputError as why:
            raise InputError(f"{why}; expected key=value, or a file of them") from None
    flags, off = dict[str, list[str]](), set[str]()
    for word in words_of(text, "--bridge"):
        key, equals, value = word.lstrip("+").partition("=")
        if not equals:
            raise InputError(f"--bridge {word}: expected key=value, as in train.micro_batch_size=1")
        if key.partition(".")[0] in ASIDE:
            typed.ignored.append(key)
            continue
        name, values = _flag(key, value)
        if values is None:
            off.add(name)
        elif flags.setdefault(name, values) != values:
            raise InputError(f"--bridge {key}: {value} and {' '.join(flags[name])} differ")
    typed.assumed.append(TOLD)
    return {name: v for name, v in RECIPES.items() if name not in off} | flags


def _flag(key: str, value: str) -> tuple[str, list[str] | None]:
    """A field's flag and the words behind it; None where it is off."""
    field, word = key.rpartition(".")[2], value.lower()
    if field in UNLESS and word == "false":
        return UNLESS[field], []
    if field == "mixed_precision" or (key == "mixed_precision"):
        return ("fp8-format", [value]) if "fp8" in word else (word.partition("_")[0], [])
    name = OTHER.get(field, field.replace("_", "-"))
    if word in ("false", "null", "none"):
        return name, None
    return name, [] if word == "true" else [value]
