"""A step of any program by all meters: equal to the formulas where they know it, silent on what
nobody sees, and empty where a meter is switched off.
"""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from mathlib import launch
from mathlib.checks import InputError
from mathlib.meters import report
from mathlib.meters.flop import FlopMeter
from mathlib.meters.storages import Storages
from mathlib.model import data, gpt, oracle
from mathlib.parallel.ddp import DDP
from mathlib.specs import find_device

ROOT = Path(__file__).parents[2]
MODEL = gpt.small(vocab=len(data.vocabulary()))
BATCH = data.batch(2, MODEL.context)


def of_gpt(sequences: int = 2, **options) -> report.Found:
    model = gpt.GPT(MODEL)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = data.batch(sequences, MODEL.context)
    with report.step(model, optimizer=optimizer, **options) as found:
        model.loss(*batch).backward()
        optimizer.step()
    return found


def test_our_gpt_is_what_the_formulas_say_to_the_last_flop_and_byte():
    found = of_gpt(sequences=3)
    rows = {name: both for name, *both in found.rows()}
    for name in ("FLOP", "bytes saved"):
        measured, formula = rows[name]
        assert measured == formula > 0
    states = 4 * sum(p.numel() for p in gpt.GPT(MODEL).parameters())
    assert found.peak >= 2 * states + found.saved // 2 and not found.unseen
    assert f"{found.saved:18,}{found.saved:18,}" in str(found)


def test_a_meter_that_is_switched_off_is_missed(monkeypatch):
    for kind in (FlopMeter, Storages):
        monkeypatch.setattr(
            kind, "__torch_dispatch__", lambda _, f, t, a=(), k=None: f(*a, **k or {})
        )
    monkeypatch.setattr(report.live.LiveMeter, "_pack", lambda _, tensor: tensor)
    found = of_gpt()
    assert (found.flop.total(), found.saved, found.peak) == (0, 0, 0)
    assert found.formulas["FLOP"] > 0 < found.formulas["bytes saved"]


def test_utilization_is_of_model_flop_and_of_a_step_without_meters():
    found = of_gpt(device="h100-sxm")
    assert "MFU at least" in str(found)
    with found.timed():
        pass
    found.seconds = 2.0
    assert found.utilization == found.formulas["model FLOP"] / 2.0 / find_device("h100-sxm").half
    assert "2 s a step: MFU 2.14e-06% of" in str(found)


def test_a_model_that_no_formula_knows_is_measured_all_the_same():
    layer, x = nn.Linear(8, 16, bias=False), torch.randn(4, 8)
    with report.step(layer, device="h100-sxm") as found:
        layer(x).sum().backward()
    assert (found.flop.total(), found.saved, found.formulas) == (2 * 2 * 4 * 8 * 16, 4 * 4 * 8, {})
    assert "not known: formulas, since Linear has no config" in str(found) and "HFU" in str(found)


def test_a_device_that_nobody_knows_is_refused():
    with (
        pytest.raises(InputError, match="device = 'abacus'"),
        report.step(nn.Linear(1, 1), device="abacus"),
    ):
        pass


def llama(**options):
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **options))


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_a_llama_of_transformers_computes_what_its_config_says(kernel):
    model, tokens = llama(attn_implementation=kernel), torch.randint(256, (2, 32))
    with report.step(model) as found:
        for half in tokens.split(1):  # two forwards, one after the other
            model(input_ids=half, labels=half).loss.backward()
    assert found.flop.total() == found.formulas["FLOP"] > 0 and not found.unseen


def masked(text: str) -> str:
    """Without the time and what follows from it."""
    return re.sub(r"\S+ (s|ms|us) a step: MFU \S+%", "", text).strip()


def test_the_page_prints_what_it_says_and_its_difference_is_explained(capsys):
    pytest.importorskip("transformers")
    page = (ROOT / "book" / "measure-your-own.md").read_text("utf-8")
    names: dict = {}
    exec(re.search(r"```python\n(.+?)```", page, re.S)[1], names)
    said = capsys.readouterr().out
    assert masked(said) == masked(re.search(r"```text\n(.+?)```", page, re.S)[1])
    found, (B, s), h, d = names["found"], names["tokens"].shape, 64, 16
    more = 5 * 4 * B * s * h + 2 * 4 * s * d
    assert found.saved - found.formulas["bytes saved"] == more and f"{more:,} bytes" in page


def on_two_ranks() -> dict[str, tuple[report.Found, int]]:
    found = {}
    for name in WAYS:
        model = gpt.GPT(MODEL)
        wrapped = WAYS[name](model)
        part = [mine.clone() for mine in oracle.my_part(BATCH)]  # a view would keep all of it
        for _ in range(2):  # torch makes its buckets anew in the second step
            oracle.loss(wrapped, *part).backward()
        with report.step(wrapped) as found[name]:
            oracle.loss(wrapped, *part).backward()
        found[name].finish = None  # cannot travel
    return found


def fsdp(model: nn.Module) -> nn.Module:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


WAYS = {"ours": DDP, "torch's": nn.parallel.DistributedDataParallel, "fsdp": fsdp}
K = 4 * sum(p.numel() for p in gpt.GPT(MODEL).parameters())


@pytest.fixture(scope="module")
def two():
    return launch.run(on_two_ranks, 2, echo=False)


HEADERS = 1_000  # bytes, at most, that gloo adds to some messages, 48 at a time


@pytest.mark.parametrize("way", ["ours", "torch's"])
def test_two_ranks_send_the_mean_gradient_once(two, way):
    for ranks in two:
        found = ranks[way]
        assert found.calls.calls == {"allreduce_": 1} and found.calls.payload == {"allreduce_": K}
        assert found.formulas["bytes sent"] == 2 * K * (2 - 1) / 2
        assert 0 < found.sent - K < HEADERS and (found.sent - K) % 48 == 0
        assert found.flop.total() == found.formulas["FLOP"]
        assert found.saved == found.formulas["bytes saved"] and not found.unseen


def test_fsdp_gathers_and_scatters_and_its_saved_bytes_are_not_guessed(two):
    for ranks in two:
        found = ranks["fsdp"]
        gathers, scatters = (
            found.calls.payload[name] for name in ("_allgather_base_", "_reduce_scatter_base_")
        )
        assert gathers > 1.5 * K and K <= scatters < 1.01 * K  # rows are padded
        assert found.formulas["bytes sent"] == (gathers + scatters) / 2
        again = found.sent - found.formulas["bytes sent"] - scatters / 2  # gloo: as an all-reduce
        assert 0 < again < 5 * HEADERS and again % 48 == 0
        assert found.flop.total() == found.formulas["FLOP"] and found.saved is None
        assert found.unseen == [report.UNSEEN["saved"]]
