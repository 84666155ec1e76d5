"""Seconds of a decoding step: the larger of its bytes and its FLOP.

B sequences · s tokens · c cached tokens · e bytes an element · X FLOP/s achieved
t tensor · rho acceptance: how likely a drafted token stays · gamma ahead: tokens drafted for a pass
"""

from mathlib.checks import fraction, non_negative, positive, whole
from mathlib.compute import flops
from mathlib.compute.params import matrices
from mathlib.memory.inference import kv_cache
from mathlib.parts import Parts
from mathlib.specs import Device, Model, find_device, find_model

CORE = ("attention scores", "attention values")


def bytes_read(
    model: str | Model,
    *,
    sequences: int = 1,
    tokens: int = 1,
    past: int = 0,
    tensor: int = 1,
    bytes_per_parameter: float = 2,
    bytes_per_element: float = 2,
) -> Parts:
    """Bytes of one pass: every weight that a token is multiplied with once, and each
    sequence's cache, its new tokens included (Pope et al. 2022, section 2).

    Of experts, those that at least one of the tokens chose, if they choose evenly and
    each for itself: 1 - (1 - used/all)^(B s) of them. Each of t devices reads a t-th of
    the weights, and of the cache what `kv_cache` gives it.

    Chapter: inference (eq-bytes-read)
    """
    B, s = whole("sequences", sequences), whole("tokens", tokens)
    c, e = whole("past", past, least=0), bytes_per_element
    width = positive("bytes_per_parameter", bytes_per_parameter)
    t, read = whole("tensor", tensor), 0.0
    for m in matrices(model):
        chosen = 1 - (1 - m.used / m.copies) ** (B * s)
        read += width * m.parameters * chosen
    cache = kv_cache(model, tokens=c + s, sequences=B, bytes_per_element=e, tensor=t)
    return Parts("Read in a pass", "byte", {"weights": read / t, "cache": cache.total})


def work(model: str | Model, *, sequences: int = 1, tokens: int = 1, past: int = 0) -> Parts:
    """FLOP of one pass, by what has to be read for it: 2 B s for each weight met, and attention's
    matmuls with the cache.

    A latent is not unpacked: each head's query meets all its numbers, and reads them as values
    (DeepSeek-V2, section 2.1.2), so a pair costs 2 a (2 r_kv + d_rope).

    Chapter: inference (eq-step-time)
    """
    spent = flops.forward(model, sequences=sequences, tokens=tokens, past=past, causal=True)
    core = sum(spent.amount(name) for name in CORE)
    weights, latent = spent.total - core, find_model(model).latent
    if latent:
        unpacked = latent.nope_dim + latent.rope_dim + latent.value_dim
        core = core // unpacked * (2 * latent.kv_rank + latent.rope_dim)
    return Parts("FLOP of a pass", "FLOP", {"weights": weights, "cache": core})


def intensity(model: str | Model, *, sequences: int = 1, tokens: int = 1, past: int = 0) -> float:
    """FLOP for a byte read, in 16 bits: B, or little more, while the cache is short.

    Chapter: inference (eq-decode-intensity)
    """
    sizes = {"sequences": sequences, "tokens": tokens, "past": past}
    return work(model, **sizes).total / bytes_read(model, **sizes).total


def step(
    model: str | Model,
    device: str | Device,
    *,
    sequences: int = 1,
    tokens: int = 1,
    past: int = 0,
    tensor: int = 1,
    bytes_per_parameter: float = 2,
    bytes_per_element: float = 2,
    achieved: float | None = None,
) -> Parts:
    """Seconds of one pass: for weights and for cache the larger of bytes/bandwidth and
    FLOP/X.

    Nothing else is counted: no launch of a kernel, no message, no activations. Of t
    devices that share the heads each has a t-th of the FLOP. `achieved` None takes the
    device's peak for 16 bits; numbers of fewer bits are unpacked before the matmul.

    Chapter: inference (eq-step-time)
    """
    device = device if isinstance(device, Device) else find_device(device)
    X = device.half if achieved is None else positive("achieved", achieved)
    X *= whole("tensor", tensor)
    sizes = {"sequences": sequences, "tokens": tokens, "past": past}
    read = bytes_read(
        model,
        **sizes,
        tensor=tensor,
        bytes_per_parameter=bytes_per_parameter,
        bytes_per_element=bytes_per_element,
    )
    spent = work(model, **sizes)
    seconds = {
        part: max(read.amount(part) / device.memory_bandwidth, spent.amount(part) / X)
        for part in read
    }
    return Parts("Seconds of a pass", "second", seconds)


def tokens_per_second(
    model: str | Model,
    device: str | Device,
    *,
    sequences: int = 1,
    past: int = 0,
    tensor: int = 1,
    bytes_per_parameter: float = 2,
    bytes_per_element: float = 2,
    achieved: float | None = None,
) -> float:
    """Tokens a second of one device at most, each of B sequences getting one in a step: B / (t T).

    T is the step of one of t devices that share the heads, without their messages.

    Chapter: inference (eq-step-time)
    """
    B, t = whole("sequences", sequences), whole("tensor", tensor)
    pass_ = step(
        model,
        device,
        sequences=B,
        past=past,
        tensor=t,
        bytes_per_parameter=bytes_per_parameter,
        bytes_per_element=bytes_per_element,
        achieved=achieved,
    )
    return B / (t * pass_.total)


def drafted(*, acceptance: float, ahead: int) -> float:
    """Tokens that a pass of the large model yields: (1 - rho^(gamma+1)) / (1 - rho) (Leviathan et
    al. 2023, equation 1).

    Chapter: inference (eq-drafted)
    """
    rho, gamma = fraction("acceptance", acceptance), whole("ahead", ahead, least=0)
    return gamma + 1 if rho == 1 else (1 - rho ** (gamma + 1)) / (1 - rho)


def gain(*, acceptance: float, ahead: int, draft_time: float) -> float:
    """How many times as fast speculation is: expected tokens over gamma drafts and one pass
    (Leviathan et al. 2023, theorem 3.8).

    `draft_time`: of one pass of the small model, as a share of one of the large.

    Chapter: inference (eq-gain)
    """
    yields = drafted(acceptance=acceptance, ahead=ahead)
    return yields / (ahead * non_negative("draft_time", draft_time) + 1)
