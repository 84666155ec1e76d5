"""A step of any program by all meters: equal to the formulas where they know it, silent on what
nobody sees, and empty where a meter is switched off.
"""

import re
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from mathlib import launch
from mathlib.checks import InputError
from mathlib.compute import flops
from mathlib.meters import report
from mathlib.meters.flop import FlopMeter
from mathlib.meters.saved import Storages
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
    saved = found.saved.total()
    assert found.peak >= 2 * states + saved // 2 and not found.unseen
    assert f"{saved:18,}{saved:18,}" in str(found)


def test_parts_are_named_as_the_model_names_them_and_add_up():
    found = of_gpt()
    ahead = flops.forward(MODEL, sequences=2, tokens=MODEL.context)
    assert found.flop["mlp"] == 3 * ahead.amount("mlp") > 0
    assert found.flop["head"] == 3 * ahead.amount("vocabulary") > 0
    assert {"mlp", "attention", "norm1", "norm2", "head"} < set(found.saved)
    assert sum(found.kinds.values()) == found.peak
    states = 4 * sum(p.numel() for p in gpt.GPT(MODEL).parameters())
    assert found.kinds["weights"] == found.kinds["gradients"] == states
    rows = {name: n for name, n, _ in found.rows()}
    for head, parts in (("FLOP", found.flop), ("bytes saved", found.saved)):
        assert sum(rows[f"{head} of {part or report.OUTSIDE}"] for part in parts) == rows[head]
    assert re.search(r"^  mlp +[\d,]+ +-$", str(found), re.M), "a part stands under its sum"


def test_the_peak_is_that_of_all_storages_and_of_what_was_there_before():
    model = gpt.GPT(MODEL)
    with Storages(model) as storages, report.step(model) as found:
        model.loss(*BATCH).backward()
    assert found.peak - storages.peak == BATCH[0].nbytes, "its tokens, which no operation makes"


def test_a_meter_that_is_switched_off_is_missed(monkeypatch):
    for kind in (FlopMeter, report.live.LiveMeter):
        monkeypatch.setattr(
            kind, "__torch_dispatch__", lambda _, f, t, a=(), k=None: f(*a, **k or {})
        )
    monkeypatch.setattr(report.live.LiveMeter, "_pack", lambda _, tensor: tensor)
    found = of_gpt()
    assert (found.flop.total(), found.saved.total()) == (0, 0)
    assert set(found.kinds) == {"weights", "gradients"}, "which torch itself tells of"
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
    assert (found.flop.total(), found.saved.total()) == (2 * 2 * 4 * 8 * 16, 4 * 4 * 8)
    assert found.formulas == {}
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
    """Without the time and what follows from it, and without the system's count: gloo tells the
    other rank of what it sends, and how often may change.
    """
    text = re.sub(r"\S+ (s|ms|us) a step: MFU \S+%", "", text)
    return re.sub(r"(?<=bytes sent)( +)[\d,]+", "", text).strip()


def test_the_page_prints_what_it_says_and_its_difference_is_explained(capsys):
    pytest.importorskip("transformers")
    page = (ROOT / "book" / "measure-your-own.md").read_text("utf-8")
    names: dict = {}
    programs, texts = (
        re.findall(rf"```{kind}\n(.+?)```", page, re.S) for kind in ("python", "text")
    )
    assert len(programs) == len(texts) == 2
    for program, text in zip(programs, texts, strict=True):
        exec(program, names)
        assert masked(capsys.readouterr().out) == masked(text)
    found, (B, s), h, d = names["found"], names["tokens"].shape, 64, 16
    more = 5 * 4 * B * s * h + 2 * 4 * s * d
    assert found.saved.total() - found.formulas["bytes saved"] == more and f"{more:,} bytes" in page


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
            sums = torch.zeros(3)
            dist.all_reduce(sums)  # what a program of one's own may do
        found[name].finish = None  # cannot travel
    return found | {"blind": blind(), "buffers": buffers()}


def blind() -> report.Found:
    """FSDP by a meter to which no module's forward is told."""
    model, running = fsdp(gpt.GPT(MODEL)), report.whose.running
    report.whose.running = lambda model, enters: running(model)
    try:
        with report.step(model) as found:
            oracle.loss(model, *oracle.my_part(BATCH)).backward()
    finally:
        report.whose.running = running
    found.finish = None
    return found


def buffers() -> report.Found:
    model = nn.parallel.DistributedDataParallel(nn.BatchNorm1d(4))
    model(torch.randn(8, 4)).sum().backward()
    with report.step(model) as found:
        model(torch.randn(8, 4)).sum().backward()
    found.finish = None
    return found


def fsdp(model: nn.Module) -> nn.Module:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


WAYS = {"ours": DDP, "torch's": nn.parallel.DistributedDataParallel, "fsdp": fsdp}
OWN = 4 * 3  # bytes that the program adds up by itself
K = 4 * sum(p.numel() for p in gpt.GPT(MODEL).parameters())


@pytest.fixture(scope="module")
def two():
    return launch.run(on_two_ranks, 2, echo=False)


HEADERS = 1_000  # bytes, at most, that gloo adds to some messages, 48 at a time


@pytest.mark.parametrize("way", ["ours", "torch's"])
def test_two_ranks_send_the_mean_gradient_once(two, way):
    for ranks in two:
        found = ranks[way]
        what = "of gradients" if way == "torch's" else "in the backward"
        assert found.calls.parts == {
            ("allreduce_", what): [1, K],
            ("allreduce_", "elsewhere"): [1, OWN],
        }
        rows = {name: both for name, *both in found.rows()}
        formula = K if way == "torch's" else None
        assert rows[f"all-reduce {what}: bytes"] == [K, formula]
        assert found.formulas["bytes sent"] == 2 * (K + OWN) * (2 - 1) / 2
        assert 0 < found.sent - K - OWN < 2 * HEADERS and (found.sent - K - OWN) % 48 == 0
        assert found.flop.total() == found.formulas["FLOP"]
        assert found.saved.total() == found.formulas["bytes saved"] and not found.unseen


def test_the_weights_and_gradients_of_fsdp_are_told_apart(two):
    """Before the forward all weights come, in the backward those of the blocks once more."""
    for ranks in two:
        found = ranks["fsdp"]
        parts = {part: (calls, size) for (_, part), (calls, size) in found.calls.parts.items()}
        blocks = MODEL.layers
        assert parts["of weights, forward"][0] == parts["of gradients"][0] == blocks + 1
        assert parts["of weights, backward"][0] == blocks
        for part in ("of weights, forward", "of gradients"):
            assert K <= parts[part][1] < 1.01 * K  # rows are padded
        assert parts["of weights, backward"][1] < K and parts["elsewhere"] == (1, OWN)
        rows = {name: both for name, *both in found.rows()}
        assert rows["reduce-scatter of gradients: bytes"][1] == K
        assert "all-gather of weights, forward: bytes" in str(found)


def test_what_ddp_sends_of_buffers_is_named(two):
    for ranks in two:
        parts = ranks["buffers"].calls.parts
        assert {part for _, part in parts} == {"of buffers", "of gradients"}


def test_without_the_modules_fsdps_gathered_weights_look_like_activations(two):
    for ranks in two:
        told, blind = ranks["fsdp"], ranks["blind"]
        assert blind.saved.total() > 1.5 * told.saved.total() and "mlp" not in blind.flop
        assert blind.calls.parts.keys() < told.calls.parts.keys()


def test_fsdp_gathers_and_scatters_and_keeps_what_the_formula_says(two):
    for ranks in two:
        found = ranks["fsdp"]
        gathers, scatters = (
            found.calls.payload[name] for name in ("_allgather_base_", "_reduce_scatter_base_")
        )
        assert gathers > 1.5 * K and K <= scatters < 1.01 * K  # rows are padded
        assert found.formulas["bytes sent"] == (gathers + scatters) / 2 + OWN
        again = found.sent - found.formulas["bytes sent"] - scatters / 2  # gloo: as an all-reduce
        assert 0 < again < 6 * HEADERS and again % 48 == 0
        assert found.flop.total() == found.formulas["FLOP"] and not found.unseen
        assert found.saved.total() == found.formulas["bytes saved"] > 0
        assert found.flop == ranks["torch's"].flop and found.saved == ranks["torch's"].saved
