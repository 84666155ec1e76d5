"""What other programs print: their own accounting, kept apart because each has conventions of its
own.

P parameters · n devices of a node · N devices in all · l parameters of the largest layer
DeepSpeed and Accelerate print GiB or MiB and write GB or MB: the functions here return
bytes.
"""

from mathlib.checks import InputError, flag, non_negative, one_of, positive, whole
from mathlib.memory.precision import bytes_of
from mathlib.parts import Parts

OFFLOAD = ("none", "optimizer", "all")


def deepspeed_zero2(
    parameters: float,
    *,
    devices_per_node: int = 1,
    nodes: int = 1,
    offload: str = "none",
    version: str = "docs",
    buffer_factor: float = 1.5,
) -> dict[str, int]:
    """Bytes {"device", "host"} of DeepSpeed's ZeRO-2 estimate; its docs and its code disagree.

    Device: 2P with the optimizer on the host; else 4P + 16P/N (docs) or 2P + 18P/N (code).
    Host: 4 n P, with the optimizer there max(4n, 16) P (docs) or max(4N, 16) P (code); all times
    1.5.

    Chapter: zero
    """
    P, n, total = _cluster(parameters, devices_per_node, nodes)
    code = one_of("version", version, ("docs", "code")) == "code"
    factor = positive("buffer_factor", buffer_factor)
    if one_of("offload", offload, OFFLOAD[:2]) == "optimizer":
        return {
            "device": int(2 * P),
            "host": int(P * max(4 * (total if code else n), 16) * factor),
        }
    fixed, shared = (2, 18) if code else (4, 16)
    return {
        "device": int(fixed * P) + int(shared * P / total),
        "host": int(P * 4 * n * factor),
    }


def deepspeed_zero3(
    parameters: float,
    *,
    largest_layer: float,
    devices_per_node: int = 1,
    nodes: int = 1,
    offload: str = "none",
    zero_init: bool = True,
    buffer_factor: float = 1.5,
) -> dict[str, int]:
    """Bytes {"device", "host"} of DeepSpeed's ZeRO-3 estimate; docs and code agree.

    Device: 4l, + 18P/N without offload, + 2P/N with the optimizer on the host, + 0 with all of it.
    Host: 4 l n, 16 P n/N, 18 P n/N; without zero.Init at least 4 n P; all times 1.5.

    Chapter: zero
    """
    P, n, total = _cluster(parameters, devices_per_node, nodes)
    gathered = 4 * positive("largest_layer", largest_layer)
    if largest_layer > parameters:
        raise InputError(
            f"largest_layer = {largest_layer}: expected at most parameters = {parameters}"
        )
    on_device, on_host = {"none": (18, 0), "optimizer": (2, 16), "all": (0, 18)}[
        one_of("offload", offload, OFFLOAD)
    ]
    host = P * on_host * n / total
    if not flag("zero_init", zero_init):
        host = max(4 * n * P, host)
    elif offload == "none":
        host = gathered * n
    host = host * positive("buffer_factor", buffer_factor)
    return {"device": int(gathered) + int(on_device * P / total), "host": int(host)}


def _cluster(parameters: float, devices_per_node: int, nodes: int) -> tuple[float, int, int]:
    n = whole("devices_per_node", devices_per_node)
    return positive("parameters", parameters), n, n * whole("nodes", nodes)


def accelerate_size(parameters: float, *, dtype: str = "fp32", buffer_bytes: float = 0) -> float:
    """Bytes of Accelerate's total size: all that is there in fp32, buffers included, scaled by the
    width of the type.

    Chapter: memory
    """
    fp32 = bytes_of("fp32") * positive("parameters", parameters) + non_negative(
        "buffer_bytes", buffer_bytes
    )
    return fp32 * bytes_of(dtype) / bytes_of("fp32")


def accelerate_training(size: float) -> Parts:
    """Bytes of Accelerate's "Training using Adam": 4 times the size, all in one type; no real
    recipe for the int8 and int4 rows, where its newer versions print N/A.

    Chapter: memory
    """
    each = positive("size", size)
    parts = {"weights": each, "gradients": each, "optimizer states": 2 * each}
    return Parts("Accelerate: training using Adam", "byte", parts)
