"""Llama 2 70B in int8 on one A100, and other models: what is computed for GPUs.

5 GB of its 80 GiB are kept back for what no formula counts.
"""

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import decode_time, inference

LLAMA, A100 = specs.find_model("llama2-70b"), specs.find_device("a100-80gb")
ALIKE = LLAMA.but(name="alike", kv_heads=64)  # as if no heads were shared
WEIGHTS = params.count(LLAMA).total  # bytes, one each
MEMORY, RESERVE = A100.room, 5e9
FREE = MEMORY - RESERVE - WEIGHTS
RIDGE = A100.half / A100.memory_bandwidth  # FLOP for a byte read
CACHE = inference.kv_cache(LLAMA, tokens=4096).total  # of a conversation
TRAINED = {"llama2-7b": 4096, "llama2-70b": 4096, "llama3-8b": 8192, "mistral-7b": 8192}


def seconds(**sizes: int) -> float:
    """Of a pass, with int8 weights, at least."""
    return decode_time.step(LLAMA, A100, bytes_per_parameter=1, **sizes).total  # type: ignore[arg-type]


def room(sequences: int = 1, memory: float = MEMORY) -> list[float]:
    """Tokens that each sequence can have: with 8 key-value heads, and if it had 64."""
    size = memory - RESERVE - WEIGHTS
    return [inference.tokens_within(m, size=size, sequences=sequences) for m in (LLAMA, ALIKE)]


def share(name: str, tokens: int) -> float:
    """The cache of one sequence over the weights, both in 16 bits."""
    return inference.kv_cache(name, tokens=tokens).total / (2 * params.count(name).total)


def trained() -> dict[str, float]:
    """The share at the length that each model was trained on."""
    return {specs.find_model(name).title: share(name, s) for name, s in TRAINED.items()}


def crossover() -> dict[str, list[tuple[int, float]]]:
    """The share of each model by length, from 256 to a million tokens."""
    lengths = [2**i for i in range(8, 21)]
    return {specs.find_model(n).title: [(s, share(n, s)) for s in lengths] for n in TRAINED}


def latent_intensity() -> float:
    """FLOP that DeepSeek-V3 does for each byte of a long cache."""
    sizes = {"sequences": 4, "past": 100_000}
    asked = decode_time.work("deepseek-v3", **sizes).amount("cache")
    return asked / decode_time.bytes_read("deepseek-v3", **sizes).amount("cache")


def by_bits() -> dict[str, tuple[float, float]]:
    """Bytes of the weights and tokens a second, with 1,000 tokens in the cache."""
    ways = {"16 bits": 16, "8 bits": 8, "4 bits and scales": 4.5, "4 bits": 4}
    found = {}
    for name, bits in ways.items():
        step = decode_time.step(LLAMA, A100, bytes_per_parameter=bits / 8, past=1000)
        found[name] = bits / 8 * WEIGHTS, 1 / step.total
    return found


def checking(tokens: int, sequences: int = 1, past: int = 0) -> float:
    """Seconds of a pass over so many tokens of each sequence, over those of one token."""
    many, one = (seconds(sequences=sequences, tokens=n, past=past) for n in (tokens, 1))
    return many / one
