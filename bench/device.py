"""One device by all meters, recorded as data: matmuls, streams, a step's memory, flash, decoding.

    python bench/device.py                            on a CPU: tries the path, keeps nothing
    python bench/device.py --device cuda --keep       on a GPU: also writes bench/results/

What is printed is JSON: the figures with the machine, the date and the command that gave them. The
account of memory down to what the device itself says is gone needs CUDA.
"""

import argparse
import datetime
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from run import machine  # noqa: E402

from mathlib.memory import activations, decode_time, one_device  # noqa: E402
from mathlib.meters import rates, residuals, saved  # noqa: E402
from mathlib.model import data, decoding, gpt  # noqa: E402
from mathlib.specs import Device, Layout, Model  # noqa: E402

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
KERNELS = {"plain": "standard", "flash": "flash"}  # the model's word: the formulas' word


def shape(quick: bool) -> Model:
    """A model whose matmuls fill a GPU, or one that a CPU steps through in a moment."""
    sizes = {"layers": 2, "width": 64, "heads": 4, "context": 32}
    if not quick:
        sizes = {"layers": 12, "width": 2048, "heads": 16, "context": 1024}
    return gpt.small(**sizes, vocab=len(data.vocabulary()))


def works_in(device: str) -> str:
    """16 bits on a GPU, whose FlashAttention takes nothing else."""
    return "bf16" if torch.device(device).type == "cuda" else "fp32"


def on(device: str, sequences: int, context: int) -> list[torch.Tensor]:
    return [tokens.to(device) for tokens in data.batch(sequences, context)]


def matmuls(device: str, quick: bool) -> Iterator[dict]:
    """FLOP/s by size and type: square ones, and thin ones as decoding has them."""
    sizes = [64, 128] if quick else [256, 512, 1024, 2048, 4096, 8192, 16384]
    wide = sizes[-2]
    shapes = [(n, n, n) for n in sizes]
    shapes += [(rows, wide, wide) for rows in ([1, 8] if quick else [1, 4, 16, 64, 256])]
    for name, dtype in TYPES.items():
        found = rates.matmul_rates(shapes, dtype=dtype, device=device, repeat=2 if quick else 9)
        for (r, i, o), rate in zip(shapes, found, strict=True):
            yield {"dtype": name, "rows": r, "inner": i, "columns": o, "flop_per_second": rate}


def streams(device: str, quick: bool) -> Iterator[dict]:
    sizes = [2**16] if quick else [2**k for k in range(16, 33, 2)]
    for size, rate in zip(sizes, rates.stream_rates(sizes, device=device), strict=True):
        yield {"bytes": size, "bytes_per_second": rate}
    yield {"launch_seconds": rates.launch_seconds(device=device)}


def kept(device: str, quick: bool) -> Iterator[dict]:
    """Bytes that autograd keeps with either attention, beside the formula; the kernel of flash
    attention itself, or an error.
    """
    shape_, name = shape(quick), works_in(device)
    B, size = 2, TYPES[name].itemsize
    for mine, formula in KERNELS.items():
        model = gpt.GPT(shape_, mine).to(device, TYPES[name])
        batch = on(device, B, shape_.context)
        asked = {"attention": formula, "bytes_per_element": size, "logits_bytes": size}
        told = activations.stage(shape_, Layout(micro_batch=B), **asked, small_tensors=True)
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            found = saved.saved_bytes(lambda m=model, b=batch: m.loss(*b), model)
        yield {
            "attention": mine,
            "dtype": name,
            "saved_bytes": found,
            "formula_bytes": told.total,
        }


def memory(device: str, quick: bool) -> Iterator[dict]:
    """The second step of fp32 training with AdamW, from the formula to the device's own account.
    The scores are written out: no kernel chooses what is kept.
    """
    shape_, B = shape(quick), 2
    how = {"recipe": "adam-fp32", "attention": "standard", "bytes_per_element": 4}
    how |= {"small_tensors": True, "optimizer": "foreach"}
    foreseen = one_device.moments(shape_, Layout(micro_batch=B), **how)
    most = max(one.total for one in foreseen.values())
    if torch.device(device).type != "cuda":
        yield {"foreseen_bytes": most, "missing": "a CPU keeps no account of its memory"}
        return
    model = gpt.GPT(shape_).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    batch = on(device, B, shape_.context)

    def step() -> None:
        model.loss(*batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    with residuals.step(device, foreseen=most) as found:
        step()
    assert found.held
    yield {"parts": dict(found.held.parts().items()), "timeline_bytes": found.timeline[::50]}


def as_measured(device: str, quick: bool) -> Device:
    """A device with the rate of a large square matmul and that of a long stream."""
    n, size = (128, 2**16) if quick else (8192, 2**30)
    dtype = TYPES[works_in(device)]
    (multiplies,) = rates.matmul_rates([(n, n, n)], dtype=dtype, device=device)
    (moves,) = rates.stream_rates([size], device=device)
    return Device("here", {"bf16": multiplies}, 1, moves, 0, 0)


def decode(device: str, quick: bool) -> Iterator[dict]:
    """Tokens a second of the whole batch, at a length that stays about the same, beside the
    formula with two rates of this device.
    """
    shape_, here = shape(quick), as_measured(device, quick)
    name, finish = works_in(device), rates.waiter(device)
    width = {"bytes_per_parameter": TYPES[name].itemsize, "bytes_per_element": TYPES[name].itemsize}
    model = gpt.GPT(shape_, "flash").to(device, TYPES[name])
    past, new = shape_.context // 2, 4 if quick else 64
    for B in (1, 2) if quick else (1, 4, 16, 64, 256):
        decoder = decoding.Decoder(model)
        tokens = on(device, B, past + new)[0]
        decoder(tokens[:, :past])
        finish()
        begin = time.perf_counter()
        for place in range(past, past + new):
            decoder(tokens[:, place : place + 1])
        finish()
        took = time.perf_counter() - begin
        told = {"sequences": B, "past": past + new // 2, **width}
        yield {
            "batch": B,
            "dtype": name,
            "past": past,
            "formula_tokens_per_second": decode_time.tokens_per_second(shape_, here, **told),
            "tokens_per_second": B * new / took,
        }


SECTIONS = (matmuls, streams, kept, memory, decode)


def record(device: str, quick: bool) -> dict:
    name = torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else "CPU"
    what = {"command": f"python bench/device.py --device {device}", "device": name}
    what |= {"date": datetime.date.today().isoformat(), "machine": machine()}
    for section in SECTIONS:
        print(f"{section.__name__} ...", file=sys.stderr, flush=True)
        what[section.__name__] = list(section(device, quick))
    return what


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help='"cpu", "cuda" or "cuda:1"')
    parser.add_argument(
        "--keep", action="store_true", help="write bench/results/<date>-<device>.json"
    )
    choice = parser.parse_args()
    cpu = torch.device(choice.device).type == "cpu"
    if cpu and choice.keep:
        parser.error("--keep: only what a GPU did is kept; give --device cuda")
    text = json.dumps(found := record(choice.device, quick=cpu), indent=1)
    print(text)
    if choice.keep:
        name = f"{found['date']}-{found['device'].lower().replace(' ', '-')}.json"
        (HERE / "results" / name).write_text(text + "\n")


if __name__ == "__main__":
    main()
