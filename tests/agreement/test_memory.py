"""The memory formulas against counted runs: bytes saved for backward, optimizer states, the
plateaus of a step.
"""

from itertools import product

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from mathlib import specs
from mathlib.compute import params
from mathlib.memory import activations, fit, one_device, precision
from mathlib.meters import live, saved
from mathlib.model import data, gpt, llama, mixed_adam, modern
from mathlib.specs import Experts, Layout

SHAPES = {
    "plain": {},
    "deep": {"layers": 5},
    "one head": {"heads": 1},
    "odd sizes": {"layers": 3, "width": 60, "heads": 5, "context": 23},
    "narrow MLP": {"ffn_width": 100},
    "untied": {"tied": False},
}


def built(name):
    return gpt.small(vocab=len(data.vocabulary()), **SHAPES[name])


@pytest.fixture(params=["odd sizes", "untied"])
def model(request):
    return built(request.param)


@pytest.mark.parametrize("sequences", [1, 4])
@pytest.mark.parametrize("attention", ["plain", "flash"])
@pytest.mark.parametrize("name", SHAPES)
def test_saved_for_backward(name, attention, sequences):
    model = built(name)
    run = gpt.GPT(model, attention)
    tokens, targets = data.batch(sequences, model.context)
    predicted = activations.stage(
        model,
        Layout(micro_batch=sequences),
        bytes_per_element=4,
        small_tensors=True,
        attention={"plain": "standard"}.get(attention, attention),
    )
    assert saved.saved_bytes(lambda: run.loss(tokens, targets), run) == predicted.total


STATES = {  # optimizer, its recipe, PyTorch's counters of 4 bytes a tensor
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1), "sgd", 0),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), "sgd-momentum", 0),
    "adam": (lambda p: torch.optim.AdamW(p), "adam-fp32", 4),
}


@pytest.mark.parametrize("make, recipe, counter", STATES.values(), ids=STATES)
def test_optimizer_states(model, make, recipe, counter):
    run = gpt.GPT(model)
    optimizer = make(run.parameters())
    run.loss(*data.batch(2, model.context)).backward()
    optimizer.step()
    held = saved.tensor_bytes(
        [list(run.parameters()), [p.grad for p in run.parameters()], list(optimizer.state.values())]
    )
    P, tensors = params.count(model).total, len(list(run.parameters()))
    assert held == precision.bytes_per_parameter(recipe).total * P + counter * tensors


KINDS = {
    "mixed-adam": "half",
    "mixed-adam-fp32-gradients": "main",
    "mixed-adam-both-gradients": "both",
}


@pytest.mark.parametrize("recipe, gradients", KINDS.items())
def test_every_copy_of_mixed_precision(model, recipe, gradients):
    run = gpt.GPT(model)
    optimizer = mixed_adam.MixedAdam(run, gradients=gradients)
    run.loss(*data.batch(2, model.context)).backward()
    held, each, P = (
        optimizer.bytes(),
        precision.bytes_per_parameter(recipe),
        params.count(model).total,
    )
    both = each.amount("first moment") + each.amount("second moment")
    predicted = {name: each.amount(name) * P for name in each if "moment" not in name} | {
        "optimizer": both * P
    }
    assert held == predicted


def test_the_plateaus_of_a_step(model):
    run = gpt.GPT(model)
    optimizer = torch.optim.AdamW(run.parameters())
    line = live.step_timeline(
        run, (data.batch(2, model.context, step) for step in range(2)), optimizer
    )
    P, tensors = params.count(model).total, len(list(run.parameters()))
    assert line.at("backward", 1)["gradients"] == line.at("forward", 1)["weights"] == 4 * P
    assert line.at("zero_grad", 1)["optimizer"] == 8 * P + 4 * tensors
    first, second = (max(line.total(row) for row in range(*span)) for span in line.steps())
    assert second > first


# Layers, head and model states all weigh something in these; V/h is Llama 2's and Llama 3's.
VOCABULARIES = [1000, 4008]
AGAIN = ["none", "selective", "full"]
HALF = {"bytes_per_element": 2, "logits_bytes": 2}
KERNELS = {  # optimizer, its recipe, how it runs
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.1, foreach=False), "sgd", "for-loop"),
    "adam": (lambda p: torch.optim.AdamW(p, foreach=False), "adam-fp32", "for-loop"),
    "foreach": (lambda p: torch.optim.AdamW(p, foreach=True), "adam-fp32", "foreach"),
}


def watched(run, shape, sequences, optimizer, device="meta", steps=2, accumulation=1, cast=None):
    """Whole steps of a real program; without numbers where the device is torch's meta device."""

    def batch():
        tokens = torch.randint(0, shape.vocab, (sequences, shape.context))
        return tokens.to(device), tokens.clone().to(device)

    batches = (batch() for _ in range(steps * accumulation))
    return live.step_timeline(run, batches, optimizer, accumulation, cast)


def agrees(line, shape, layout, **how):
    """The peak of the step, and that of its backward and its update, within 3%."""
    shown = {"bytes_per_element": 4, "small_tensors": True} | how
    alive = {name: one.total for name, one in one_device.moments(shape, layout, **shown).items()}
    first, ends = line.steps()[-1][0], [end for end, _ in line.marks]
    peaks = {"forward": 0, "backward": 0, "step": 0, "zero_grad": 0}
    for start, (end, name) in zip([0, *ends], line.marks, strict=False):
        if start >= first:
            rows = [line.total(row) for row in range(start, end)]
            peaks[name] = max([peaks[name], *rows])
    needed = fit.training(shape, layout, **shown).total
    assert needed == max(alive.values()) == pytest.approx(max(peaks.values()), rel=0.03)
    assert alive["update"] == pytest.approx(peaks["step"], rel=0.03)
    behind = max(alive[name] for name in alive if name not in ("end of forward", "update"))
    assert behind == pytest.approx(peaks["backward"], rel=0.03)


def alternating(*others):
    """Every pair of the others, with one vocabulary and with the other in turn."""
    return [
        (VOCABULARIES[sum(i for i, _ in case) % 2], *(one for _, one in case))
        for case in product(*map(enumerate, others))
    ]


@pytest.mark.parametrize(("vocab", "recompute", "kind"), alternating(AGAIN, KERNELS))
def test_the_peak_of_a_step(vocab, recompute, kind):
    make, recipe, kernel = KERNELS[kind]
    shape = gpt.small(layers=3, width=128, vocab=vocab, context=64)
    with torch.device("meta"):
        run = gpt.GPT(shape, recompute=recompute)
    line = watched(run, shape, 4, make(run.parameters()))
    layout = Layout(micro_batch=4, recompute=recompute)
    agrees(line, shape, layout, recipe=recipe, optimizer=kernel)


SIZES = {  # what the peak is about: the layers of long sequences, the tables of short ones
    "scores": {"vocab": 128, "context": 256},
    "wide layers": {"vocab": 128, "ffn_width": 1024},
    "a table": {"vocab": 4008, "context": 16},
    "two tables": {"vocab": 4008, "context": 16, "tied": False},
}


@pytest.mark.parametrize("recompute", AGAIN)
@pytest.mark.parametrize("size", SIZES)
def test_the_peak_wherever_it_is(size, recompute):
    accumulation = 1 + ([*SIZES].index(size) + AGAIN.index(recompute)) % 2
    shape = gpt.small(layers=3, width=128, **{"context": 64} | SIZES[size])
    with torch.device("meta"):
        run = gpt.GPT(shape, recompute=recompute)
    optimizer = torch.optim.SGD(run.parameters(), lr=0.1)
    line = watched(run, shape, 4, optimizer, accumulation=accumulation)
    layout = Layout(micro_batch=4, recompute=recompute, micro_batches=accumulation)
    agrees(line, shape, layout, recipe="sgd", optimizer="for-loop")


@pytest.mark.parametrize(("vocab", "recompute"), alternating(AGAIN))
def test_the_peak_in_mixed_precision(vocab, recompute):
    shape = gpt.small(layers=3, width=128, vocab=vocab, context=64)
    with torch.device("meta"):
        run = gpt.GPT(shape, recompute=recompute)
    line = watched(run, shape, 4, mixed_adam.MixedAdam(run))
    layout = Layout(micro_batch=4, recompute=recompute)
    agrees(line, shape, layout, recipe="mixed-adam", optimizer="for-loop", **HALF)


def as_on_cuda(q, k, v):
    """Attention as autocast runs it on CUDA: softmax in fp32, its matmul in half precision."""
    scores = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).float()
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1).to(q.dtype) @ v


@pytest.mark.parametrize(
    ("vocab", "recompute", "attention"), alternating(["none", "full"], ["flash", "plain"])
)
def test_the_peak_under_autocast(vocab, recompute, attention, monkeypatch):
    monkeypatch.setitem(gpt.ATTENTION, "plain", as_on_cuda)
    shape = gpt.small(layers=3, width=128, vocab=vocab, context=64)
    run = gpt.GPT(shape, attention, recompute)
    optimizer = torch.optim.AdamW(run.parameters(), foreach=False)
    line = watched(run, shape, 4, optimizer, device="cpu", cast=torch.bfloat16)
    layout = Layout(micro_batch=4, recompute=recompute)
    kind = {"plain": "standard"}.get(attention, attention)
    how = {"recipe": "adam-fp32", "optimizer": "for-loop", "autocast": True, "attention": kind}
    agrees(line, shape, layout, bytes_per_element=2, **how)


GROUPED = specs.find_model("llama3-8b").but(
    layers=3, width=64, heads=8, kv_heads=2, ffn_width=224, context=32, vocab=64
)
SEPARATE = {  # q, k, v in one linear layer; in three, with the gate apart from up
    "GPT": (lambda: gpt.GPT(gpt.small(), "flash"), gpt.small(), False),
    "LLaMA": (lambda: llama.Llama(GROUPED), GROUPED, True),
}


@pytest.mark.parametrize("make, shape, separate", SEPARATE.values(), ids=SEPARATE)
def test_autocast_casts_the_input_of_every_linear_layer(make, shape, separate):
    """To the byte, besides its copies of the weights: a tensor for each that reads it."""
    run, (tokens, targets) = make(), torch.randint(shape.vocab, (2, 3, shape.context))

    def loss():
        with torch.autocast("cpu", torch.bfloat16):
            logits = run(tokens)
        return nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    how = {"bytes_per_element": 2, "small_tensors": True, "autocast": True, "attention": "flash"}
    layout = Layout(micro_batch=3)
    predicted = activations.stage(shape, layout, **how).total
    linear = [part for part in run.modules() if isinstance(part, nn.Linear)]
    casts = sum(2 * part.weight.numel() for part in linear)
    assert saved.saved_bytes(loss, run) == predicted + casts
    told, other = (
        activations.stage(shape, layout, separate=one, **how).total
        for one in (separate, not separate)
    )
    more = 2 * 3 * shape.context * shape.width * shape.layers * (3 if shape.gated else 2)
    assert told == predicted and abs(told - other) == more


class Loss(nn.Module):
    """What DDP wraps: a model whose forward is its loss, and which still has a `loss`."""

    def __init__(self, run, **options):
        super().__init__()
        self.run = run
        self.wrapped = DistributedDataParallel(_Forward(run), **options)

    def loss(self, tokens, targets):
        return self.wrapped(tokens, targets)


class _Forward(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.run = run

    def forward(self, tokens, targets):
        return self.run.loss(tokens, targets)


@pytest.fixture
def alone():
    """A process group of one rank, which needs no port."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(("vocab", "buckets"), alternating(["copy", "view"]))
def test_the_peak_with_the_buckets_of_ddp(vocab, buckets, alone):
    shape = gpt.small(layers=3, width=128, vocab=vocab, context=64)
    run = Loss(gpt.GPT(shape), gradient_as_bucket_view=buckets == "view")
    optimizer = torch.optim.AdamW(run.parameters(), foreach=False)
    line = watched(run, shape, 4, optimizer, device="cpu", steps=3)  # buckets are built in step 2
    layout = Layout(micro_batch=4)
    how = {"recipe": "adam-fp32", "optimizer": "for-loop", "ddp_buckets": buckets}
    agrees(line, shape, layout, **how)


class Gated(nn.Module):
    """A gated MLP on a residual stream: what the GPT of the other runs has not."""

    def __init__(self, shape):
        super().__init__()
        self.gate, self.up = (nn.Linear(shape.width, shape.ffn_width) for _ in range(2))
        self.down = nn.Linear(shape.ffn_width, shape.width)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def test_the_working_tensors_of_a_gate():
    shape = gpt.small(layers=1, width=64, ffn_width=512, context=2048, gated=True)
    with torch.device("meta"):
        mlp, x = Gated(shape), torch.empty(shape.context, shape.width, requires_grad=True)
        with live.live(mlp) as meter:
            loss = mlp(x).sum()
            meter.mark("forward")
            loss.backward()
            meter.mark("backward")
    line = meter.timeline()
    kept, peak = sum(line.at("forward").values()), line.total(line.peak)
    how = {"recipe": "sgd", "bytes_per_element": 4, "attention": "flash"}
    working = one_device.moments(shape, **how)["last layer"]["working tensors"]
    stream = 4 * shape.context * shape.width  # here one number seen as many: a sum's gradient
    assert working == pytest.approx(peak - kept + stream, rel=0.03)


def sunk(q, k, v, sinks):
    """Attention with a learned score beside those of the tokens, cut off behind the softmax."""
    scores = plain_scores(q, k)
    beside = sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, beside], -1).softmax(-1)[..., :-1] @ v


def plain_scores(q, k):
    S = q.shape[-2]
    scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
    return scores.masked_fill(torch.ones(S, S, dtype=torch.bool).triu(1), float("-inf"))


def test_the_column_of_attention_sinks():
    shape = gpt.small()
    q, k, v = (torch.randn(3, 4, 32, 16, requires_grad=True) for _ in range(3))
    core = nn.ParameterList([nn.Parameter(torch.zeros(4))])
    with_sinks = saved.saved_bytes(lambda: sunk(q, k, v, core[0]).sum(), core)
    without = saved.saved_bytes(lambda: (plain_scores(q, k).softmax(-1) @ v).sum(), core)
    bare, sinks = (
        activations.layer(m, micro_batch=3, bytes_per_element=4).total
        for m in (shape, shape.but(attention_sinks=True))
    )
    assert with_sinks - without == sinks - bare == 4 * 3 * 4 * 32


def test_experts_of_the_small_modern_model_keep_what_the_formula_says():
    shape = specs.find_model("mixtral-8x7b").but(
        **{"name": "small", "layers": 1, "width": 64, "heads": 4, "kv_heads": 2, "vocab": 100},
        **{"context": 16, "ffn_width": 96, "experts": Experts(8, 2, 96)},
    )
    layer, x = modern.Experts(shape), torch.randn(2, 16, 64, requires_grad=True)
    kept = saved.saved_bytes(lambda: layer(x).sum(), layer)
    how = {"micro_batch": 2, "bytes_per_element": 4, "dropout": False}
    predicted = activations.layer(shape, **how)["mlp"].total
    chosen = 2 * 16 * 2  # which token, which expert: numbers that the formula leaves out
    assert predicted < kept <= predicted + 4 * 8 * chosen, "a second copy would be 16,384 more"


def test_a_gate_on_the_shared_experts():
    shape = gpt.small(experts=Experts(8, 2, 96, shared=1))
    expert = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64))
    gate, x = nn.Linear(64, 1, bias=False), torch.randn(3 * 32, 64, requires_grad=True)
    both = nn.ModuleList([expert, gate])
    scaled = saved.saved_bytes(lambda: (gate(x).sigmoid() * expert(x)).sum(), both)
    bare = saved.saved_bytes(lambda: expert(x).sum(), both)
    gated = shape.but(experts=Experts(8, 2, 96, shared=1, shared_gate=True))
    how = {"micro_batch": 3, "bytes_per_element": 4, "small_tensors": True}
    more = activations.layer(gated, **how).total - activations.layer(shape, **how).total
    assert scaled - bare == more
