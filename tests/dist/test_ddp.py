"""After every optimizer step N ranks hold the weights one process gets on the whole batch, and what makes it so."""

import contextlib
import copy
import random
import time
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.futures import Future

from mathlib.dist import data, ddp, gpt, launch, wire
from mathlib.dist.collectives import own_group
from mathlib.dist.ddp import DDP
from mathlib.dist.trace import Trace

# Everything is in fp64, where only the order of summation differs. A key's bias has no gradient but rounding noise,
# about 1e-18, which Adam divides by its epsilon of 1e-8: hence atol.
EXACT = {"rtol": 1e-9, "atol": 1e-11}
BATCH = 12  # sequences: divides by 1, 2, 3 and 4 ranks
MODEL = gpt.small(width=32, context=16, vocab=len(data.vocabulary()))


class Mixed(nn.Module):
    """A tied pair, a frozen layer, and a layer that is defined first but used last."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 1)
        self.first = nn.Linear(6, 6)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.tied = nn.Linear(6, 6)
        self.tied.weight = self.first.weight

    def forward(self, x):
        return self.last(self.tied(self.frozen(self.first(x).tanh())))


def mixed_batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 6, generator=draw, dtype=torch.float64)
    return x, x.sin().sum(1, keepdim=True)


def mixed_loss(model, x, y):
    return F.mse_loss(model(x), y)


def gpt_loss(model, x, y):
    return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


PROBLEMS = {
    "mixed": (Mixed, mixed_batch, mixed_loss),
    "gpt": (lambda: gpt.GPT(MODEL, seed=int(torch.initial_seed())), lambda s: data.batch(BATCH, 16, s), gpt_loss),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


def build(problem: str, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return PROBLEMS[problem][0]().double()


def one_process(problem: str, optimizer: str, steps: int, clip: float) -> list[dict]:
    """The weights after each step of one process on the whole batch, from rank 0's seed."""
    _, batch, loss = PROBLEMS[problem]
    model = build(problem, seed=0)
    opt, history = OPTIMIZERS[optimizer]([p for p in model.parameters() if p.requires_grad]), []
    for step in range(steps):
        opt.zero_grad()
        loss(model, *batch(step)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        history.append(copy.deepcopy(dict(model.named_parameters())))
    return history


def mine(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a batch."""
    return tensor.chunk(dist.get_world_size())[dist.get_rank()]


def by_ddp(problem: str, optimizer: str, steps: int, clip: float, way: str) -> list[dict]:
    _, batch, loss = PROBLEMS[problem]
    model = build(problem, seed=dist.get_rank())  # every rank starts elsewhere
    if way == "naive":
        ddp.broadcast([*model.parameters(), *model.buffers()])
        wrapped = model
    else:
        wrapped = DDP(model, bucket_bytes=2000, first_bucket_bytes=300)
    opt, history = OPTIMIZERS[optimizer]([p for p in model.parameters() if p.requires_grad]), []
    for step in range(steps):
        x, y = map(mine, batch(step))
        opt.zero_grad(set_to_none=way != "zeros")
        if way == "accumulation":
            parts = list(zip(x.tensor_split(3), y.tensor_split(3), strict=True))
            parts = [(a, b) for a, b in parts if len(a)]
            with wrapped.no_sync():
                for a, b in parts[:-1]:
                    (loss(wrapped, a, b) * len(a) / len(x)).backward()
            a, b = parts[-1]
            (loss(wrapped, a, b) * len(a) / len(x)).backward()
        elif way == "silent":
            with wrapped.no_sync():
                loss(wrapped, x, y).backward()
        else:
            loss(wrapped, x, y).backward()
            if way == "naive":
                ddp.average_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        opt.step()
        history.append(copy.deepcopy(dict(model.named_parameters())))
    return history


STEPS = 4
WAYS = ["buckets", "naive", "accumulation", "zeros"]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_ranks_hold_what_one_process_gets(problem, optimizer, n):
    def all_ways() -> tuple[float, float]:
        clip = 0.05  # well below the gradients' norm, so that clipping does something
        expected = one_process(problem, optimizer, STEPS, clip)
        for way in WAYS:
            history = by_ddp(problem, optimizer, STEPS, clip, way)
            for step, (want, got) in enumerate(zip(expected, history, strict=True)):
                for name in want:
                    torch.testing.assert_close(got[name], want[name], **EXACT, msg=f"{way}, step {step}, {name}")
        moved = max((expected[-1][name] - expected[0][name]).abs().max().item() for name in expected[0])
        silent = by_ddp(problem, optimizer, STEPS, clip, "silent")
        apart = max((expected[-1][name] - silent[-1][name]).abs().max().item() for name in expected[0])
        return moved, apart

    for moved, apart in launch.run(all_ways, n):
        assert moved > 1e-3, "training did something"
        assert (apart > 1e-4) == (n > 1), "and without the all-reduce it would have done something else"


# What each mechanism does.


class Chain(nn.Module):
    """Layers a, b, c, defined in one order and used in another."""

    def __init__(self, width: int = 8, use: str = "abc"):
        super().__init__()
        self.use = use
        for name in "abc":
            self.add_module(name, nn.Linear(width, width))

    def forward(self, x):
        for name in self.use:
            x = self.get_submodule(name)(x)
        return x


ONE_LAYER = 4 * (8 * 8 + 8)  # bytes
FLOATS = [torch.float32, torch.float64]


def step(model: nn.Module) -> None:
    model(torch.ones(2, 8) * (1 + dist.get_rank())).sum().backward()


def layouts() -> list[list[list[str]]]:
    model = DDP(Chain(use="bca"), bucket_bytes=ONE_LAYER, first_bucket_bytes=4 * 8)
    seen = [model.layout()]
    for _ in range(2):
        step(model)
        seen.append(model.layout())
    return seen


def test_buckets_start_in_reverse_and_are_rebuilt_once_in_the_order_of_arrival():
    before, after, later = launch.run(layouts, 2)[1]
    assert before == [["c.bias"], ["c.weight", "b.bias"], ["b.weight", "a.bias"], ["a.weight"]]
    assert after == [["a.bias"], ["a.weight", "c.bias"], ["c.weight", "b.bias"], ["b.weight"]] == later


def test_only_the_first_step_sends_an_order():
    def calls() -> list[dict]:
        model, counts = DDP(Chain()), []
        for _ in range(3):
            with wire.counted() as counted:
                step(model)
            counts.append(dict(counted.calls))
        return counts

    assert launch.run(calls, 1)[0] == [{"allreduce_": 1, "broadcast_": 1}, {"allreduce_": 1}, {"allreduce_": 1}]


def test_all_ranks_take_rank_0s_order():
    def disagree() -> tuple[list[list[str]], list[float]]:
        model = DDP(Chain(use=["abc", "cab"][dist.get_rank()]), bucket_bytes=ONE_LAYER, first_bucket_bytes=ONE_LAYER)
        for _ in range(2):
            model.zero_grad()
            step(model)
        return model.layout(), model.module.b.weight.grad

    (layout, gradient), (other, same) = launch.run(disagree, 2)
    assert layout == other == [["c.bias", "c.weight"], ["b.bias", "b.weight"], ["a.bias", "a.weight"]]
    assert torch.equal(gradient, same)


def test_a_bucket_is_full_where_torchs_is():
    draw = random.Random(0)
    for _ in range(200):
        tensors = [torch.empty(draw.randrange(1, 100), dtype=draw.choice(FLOATS)) for _ in range(draw.randrange(1, 30))]
        first, later = draw.randrange(1, 1000), draw.randrange(1, 2000)
        theirs, _ = dist._compute_bucket_assignment_by_size(tensors, [first, later])
        ours = ddp.fill(map(nn.Parameter, tensors), first, later)
        number = {tensor.data_ptr(): i for i, tensor in enumerate(tensors)}
        assert sorted([number[p.data_ptr()] for p in bucket.slots] for bucket in ours) == sorted(theirs)


def test_a_bucket_holds_one_type_of_number():
    def types() -> list[list[str]]:
        model = Chain()
        model.b.to(torch.bfloat16)
        return DDP(model, first_bucket_bytes=1e9).layout()

    assert launch.run(types, 1)[0] == [["b.bias", "b.weight"], ["c.bias", "c.weight", "a.bias", "a.weight"]]


def events(bucket_bytes: float) -> tuple[list, int]:
    trace = Trace(dist.get_rank())
    chain = Chain()
    for p in chain.parameters():  # before DDP's own hooks, so that these note a gradient before it may leave
        p.register_post_accumulate_grad_hook(lambda _: trace.begin("gradient")())
    step(DDP(chain, bucket_bytes=bucket_bytes, first_bucket_bytes=bucket_bytes, trace=trace))
    return trace.events, sum(p.nbytes for p in chain.parameters())


def test_full_buckets_leave_while_backward_goes_on():
    for found, volume in launch.run(events, 2, ONE_LAYER):
        sends = sorted((e for e in found if e.kind == "communication"), key=lambda e: e.start)
        last = max(e.start for e in found if e.what == "gradient")
        assert [e.what for e in sends] == [f"all-reduce of bucket {i}" for i in range(3)]
        assert [e.start < last for e in sends] == [True, True, False]
        assert sum(e.bytes for e in sends) == volume and all(e.end > e.start for e in sends)
        (wait,) = (e for e in found if e.kind == "idle")
        assert last <= wait.start and max(e.end for e in sends) <= wait.end, "from the last gradient to the last mean"
    for found, volume in launch.run(events, 2, 1e9):
        assert [e.bytes for e in found if e.kind == "communication"] == [volume]


def test_backward_does_not_wait_for_a_bucket():
    """A bucket whose average comes only when the next one leaves would hang a DDP that waits for each."""

    def patient() -> list[float]:
        waiting: list[tuple[Future, torch.Tensor]] = []

        def late(flat: torch.Tensor, group) -> Future:
            for future, before in waiting:
                ddp.total(before, group).wait()
                future.set_result(None)
            waiting[:] = [(Future(), flat)]
            if len(sent) == 2:
                ddp.total(flat, group).wait()
                waiting[0][0].set_result(None)
            sent.append(flat.numel())
            return waiting[0][0]

        sent: list[int] = []
        model = DDP(Chain(), bucket_bytes=ONE_LAYER, first_bucket_bytes=ONE_LAYER, hook=late)
        step(model)
        return model.module.c.bias.grad.tolist()

    assert launch.run(patient, 2, timeout=20) == [[2.0] * 8] * 2


def test_everyone_starts_from_rank_0():
    def start() -> list[torch.Tensor]:
        torch.manual_seed(dist.get_rank())
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3).requires_grad_(False))
        model[1].running_mean += dist.get_rank()
        model[1].num_batches_tracked += dist.get_rank()
        if dist.get_rank():
            before = [t.clone() for t in model.state_dict().values()]
            DDP(model)
            assert not all(map(torch.equal, before, model.state_dict().values()))
        else:
            DDP(model)
        return list(model.state_dict().values())

    first, *others = launch.run(start, 3)
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def test_a_group_averages_among_itself():
    def mean(way: str) -> tuple[float, float]:
        """The weight this rank starts from, and the gradient, which is its input's mean."""
        group = own_group([[0, 3, 4], [1, 2]])
        x = torch.full((1, 1), float(dist.get_rank()))
        model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(model.weight, dist.get_rank())
        wrapped = model if way == "naive" else DDP(model, group, find_unused_parameters=way == "find unused")
        for _ in range(2):
            model.zero_grad()
            wrapped(x).sum().backward()
            if way == "naive":
                ddp.average_gradients(model, group)
        return model.weight.item(), round(model.weight.grad.item(), 5)

    for way in ("buckets", "find unused", "naive"):
        started, means = zip(*launch.run(mean, 5, way, timeout=20), strict=True)
        assert means == (2.33333, 1.5, 1.5, 2.33333, 2.33333), way
        assert started == ((0, 1, 2, 3, 4) if way == "naive" else (0, 1, 1, 0, 0)), way


def test_nothing_is_sent_inside_no_sync():
    def calls() -> tuple[dict, dict]:
        counts = []
        model = DDP(nn.Sequential(nn.BatchNorm1d(1), nn.BatchNorm1d(1)), find_unused_parameters=True)
        for where in (model.no_sync(), contextlib.nullcontext()):
            with wire.counted() as counted, where:
                model(torch.ones(2, 1)).sum().backward()
            counts.append(dict(counted.calls))
        return counts

    # buffers, in whole numbers and in others; who has a gradient, and the one bucket
    assert launch.run(calls, 1) == [[{}, {"broadcast_": 2, "allreduce_": 2}]]


def test_an_inner_no_sync_does_not_end_the_outer_one():
    def gradients() -> tuple[float, float]:
        model, seen = DDP(nn.Linear(1, 1)), []
        with model.no_sync():
            with model.no_sync():
                pass
            model(torch.full((1, 1), 2.0 * dist.get_rank())).sum().backward()
            seen.append(model.module.weight.grad.item())
        model(torch.zeros(1, 1)).sum().backward()
        return [*seen, model.module.weight.grad.item()]

    assert launch.run(gradients, 2) == [[0.0, 1.0], [2.0, 1.0]]


def test_an_error_inside_no_sync_ends_it():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        with contextlib.suppress(ZeroDivisionError), model.no_sync():
            1 / 0  # noqa: B018
        model(torch.full((1, 1), 2.0 * dist.get_rank())).sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.0, 1.0]


def test_a_mean_fits_where_a_sum_would_overflow():
    def mean() -> float:
        layer = nn.Linear(1, 1, bias=False).half()
        DDP(layer)(torch.full((1, 1), 40000.0).half()).sum().backward()
        return layer.weight.grad.item()

    assert launch.run(mean, 2) == [40000.0] * 2  # fp16 ends at 65504


def test_checkpointed_layers_get_the_same_gradients():
    def gradients(recompute: str) -> list[torch.Tensor]:
        model = DDP(gpt.GPT(MODEL, recompute=recompute), bucket_bytes=20_000)
        for number in range(2):
            model.zero_grad()
            x, y = map(mine, data.batch(BATCH, 16, number))
            gpt_loss(model, x, y).backward()
        return [p.grad.clone() for p in model.module.parameters()]

    def both() -> None:
        assert all(map(torch.equal, gradients("none"), gradients("full")))

    launch.run(both, 2)


def test_buffers_follow_rank_0_in_training_and_rest_in_evaluation():
    def follow() -> tuple[list[float], list[float]]:
        model = DDP(nn.Sequential(nn.BatchNorm1d(1)))
        model(torch.full((2, 1), 10.0 * dist.get_rank()))  # each rank's statistics move their own way
        model(torch.zeros(2, 1))  # and are overwritten by rank 0's before they move again
        training = model.module[0].running_mean.tolist()
        model.eval()
        if dist.get_rank() == 0:  # a rank may evaluate alone
            model(torch.zeros(2, 1))
        model.module[0].running_mean += dist.get_rank()
        return training, model.module[0].running_mean.tolist()

    assert launch.run(follow, 2) == [([0.0], [0.0]), ([0.0], [1.0])]


class Branches(nn.Module):
    """A trunk, a branch for each of two kinds of input, and one that nobody takes."""

    def __init__(self):
        super().__init__()
        self.trunk, self.left, self.right, self.spare = (nn.Linear(4, 4) for _ in range(4))

    def forward(self, x, way: str):
        return self.get_submodule(way)(self.trunk(x))


WAY = {0: "left", 1: "right"}


def test_parameters_that_never_arrive_are_named_and_nobody_hangs():
    def lost() -> None:
        model = DDP(Branches())
        model(torch.ones(1, 4), WAY[dist.get_rank() % 2]).sum().backward()

    begin = time.monotonic()
    with pytest.raises(launch.RankError) as caught:
        launch.run(lost, 2, timeout=30)
    assert time.monotonic() - begin < 10
    told = "\n".join(caught.value.failures.values())
    assert "MissingGradients: 4 of 8 parameters got no gradient in this backward" in told
    assert "right.bias, right.weight, spare.bias, spare.weight" in told
    assert "left.bias, left.weight, spare.bias, spare.weight" in told
    assert "find_unused_parameters=True" in told


def test_after_a_failed_backward_the_next_one_works():
    def again() -> list[str]:
        model = DDP(Branches())
        with pytest.raises(ddp.MissingGradients) as caught:
            model(torch.ones(1, 4), "left").sum().backward()
        model.zero_grad()
        sum(model(torch.ones(1, 4), way).sum() for way in ("left", "right", "spare")).backward()
        return caught.value.names

    assert launch.run(again, 1) == [["right.bias", "right.weight", "spare.bias", "spare.weight"]]


def test_after_an_interrupted_backward_the_next_one_works():
    def again() -> torch.Tensor:
        model = DDP(Chain())
        handle = model.module.a.weight.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            step(model)
        handle.remove()
        for _ in range(2):
            model.zero_grad()
            step(model)
        assert sorted(sum(model.layout(), [])) == sorted(model.names.values()), "each has one slot"
        return model.module.a.weight.grad

    assert torch.equal(*launch.run(again, 2))


def test_two_forwards_may_come_before_their_two_backwards():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        outputs = [model(torch.full((1, 1), x + dist.get_rank())) for x in (1.0, 10.0)]
        for output in outputs:
            output.sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [1.5 + 10.5] * 2


class Scaled(nn.Module):
    """A weight and a buffer that backward needs again, like the cosines of a rotary embedding."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.register_buffer("scale", torch.full((1,), 2.0 + dist.get_rank()))

    def forward(self, x):
        return self.weight * x * self.scale


def test_a_buffer_may_be_broadcast_between_forward_and_backward():
    def gradient() -> float:
        model = DDP(Scaled())
        (model(torch.ones(1)) + model(torch.ones(1))).sum().backward()
        return model.module.weight.grad.item()

    assert launch.run(gradient, 2) == [4.0, 4.0]


def test_a_backward_after_one_that_broke_off_needs_a_forward():
    def broken() -> str:
        model = DDP(Chain())
        outputs = [model(torch.ones(1, 8)).sum() for _ in range(2)]
        handle = model.module.a.weight.register_hook(lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            outputs[0].backward()
        handle.remove()
        with pytest.raises(RuntimeError) as caught:
            outputs[1].backward()
        return str(caught.value)

    told = launch.run(broken, 2)
    assert all(s.startswith("a backward began while another had not ended") and "run forward again" in s for s in told)


def test_gradients_may_be_asked_for_with_their_graph():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1))
        model(torch.full((1, 1), 2.0 * dist.get_rank())).square().sum().backward(create_graph=True)
        return model.module.bias.grad.item()

    means = launch.run(gradient, 2)
    assert means[0] == means[1] != 0


def wrapped_twice():
    inner = nn.Linear(1, 1)
    DDP(inner)
    return DDP(nn.Sequential(inner))


REFUSED = {
    "twice": (wrapped_twice, "ValueError: 0.weight is in another DDP already"),
    "copied": (lambda: copy.deepcopy(DDP(nn.Linear(1, 1))), "TypeError: a DDP cannot be copied or saved"),
    "nothing to train": (lambda: DDP(nn.ReLU()), "ValueError: the module has no trainable parameters"),
    "meta": (lambda: DDP(nn.Linear(1, 1, device="meta")), "ValueError: weight is on the meta device: expected a tensor"),
    "sparse": (lambda: DDP(nn.Embedding(2, 1, sparse=True))(torch.tensor([0])).sum().backward(),
               "TypeError: weight has a gradient of layout torch.sparse_coo: expected a dense one"),
    "complex": (lambda: DDP(nn.Linear(1, 1, dtype=torch.complex64), hook=ddp.total_in_fp16)(
                    torch.ones(1, 1, dtype=torch.complex64)).abs().sum().backward(),
                "TypeError: gradients of type torch.complex64: expected real ones"),
}


@pytest.mark.parametrize(("wrong", "told"), REFUSED.values(), ids=REFUSED)
def test_what_would_go_wrong_unseen_is_refused(wrong, told):
    with pytest.raises(launch.RankError) as caught:
        launch.run(wrong, 1)
    assert told in caught.value.failures[0]


def test_the_naive_way_counts_a_gradient_that_is_missing_as_zero():
    def average() -> tuple[float, float]:
        model = Branches()
        model(torch.ones(1, 4), WAY[dist.get_rank()]).sum().backward()
        ddp.average_gradients(model)
        return [p.grad[0].item() for p in (model.left.bias, model.right.bias, model.spare.bias)]

    assert launch.run(average, 2, timeout=10) == [[0.5, 0.5, 0.0]] * 2


def with_branches(accumulate: bool) -> tuple[dict, dict]:
    """Weights of N ranks with unused parameters, and of one process that takes each row down its own branch."""
    rank, n = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = Branches().double()
    twin = copy.deepcopy(model)
    wrapped = DDP(model, find_unused_parameters=True, bucket_bytes=200, first_bucket_bytes=100)
    a, b = (torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.5) for m in (model, twin))
    for number in range(3):
        rows = torch.randn(n, 4, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        ways = [WAY[(r + number) % 2] if number else "left" for r in range(n)]  # in step 0 nobody goes right
        a.zero_grad()
        b.zero_grad()
        if accumulate:
            with wrapped.no_sync():
                wrapped(rows[rank : rank + 1], "right").sum().backward()
            (sum(twin(row[None], "right").sum() for row in rows) / n).backward()
        wrapped(rows[rank : rank + 1], ways[rank]).sum().backward()
        (sum(twin(row[None], way).sum() for row, way in zip(rows, ways, strict=True)) / n).backward()
        assert model.spare.weight.grad is None, "used nowhere: the optimizer must not decay it"
        assert (model.right.weight.grad is None) == (twin.right.weight.grad is None)
        a.step()
        b.step()
    return dict(model.named_parameters()), dict(twin.named_parameters())


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_unused_parameters_train_as_in_one_process(n, accumulate):
    for got, want in launch.run(with_branches, n, accumulate):
        for name in want:
            torch.testing.assert_close(got[name], want[name], **EXACT)


class Wrapped(Branches):
    """Branches whose output comes in a container."""

    def __init__(self, container):
        super().__init__()
        self.container = container

    def forward(self, x, way: str):
        return self.container(super().forward(x, way))


def test_outputs_may_be_nested_and_evaluated_in_between():
    def gradients() -> list[float | None]:
        model = DDP(Wrapped(lambda x: {"all": [(x, None)]}), find_unused_parameters=True)
        outputs = model(torch.ones(1, 4), "left")
        with torch.no_grad():
            model(torch.ones(1, 4), "right")
        outputs["all"][0][0].sum().backward()
        return [layer.bias.grad if layer.bias.grad is None else layer.bias.grad[0].item()
                for layer in (model.module.left, model.module.right, model.module.spare)]

    assert launch.run(gradients, 2) == [[1.0, None, None]] * 2


def test_a_parameter_may_be_an_output():
    def gradient() -> float:
        model = DDP(nn.Linear(1, 1), find_unused_parameters=True)
        model.module.forward = lambda x: (x @ model.module.weight, model.module.bias)
        sum(output.sum() * (1 + dist.get_rank()) for output in model(torch.ones(1, 1))).backward()
        return model.module.bias.grad.item()

    assert launch.run(gradient, 2) == [1.5, 1.5]


def test_a_gradient_that_the_outputs_do_not_lead_to_is_an_error():
    def unforeseen() -> list[str]:
        model = DDP(Wrapped(lambda x: SimpleNamespace(x=x)), find_unused_parameters=True)
        said = []
        with pytest.raises(RuntimeError) as caught:  # in a container that cannot be looked into
            model(torch.ones(1, 4), "left").x.sum().backward()
        said.append(str(caught.value))
        with pytest.raises(RuntimeError) as caught:  # in the outputs of the forward before the last
            model.module.container = lambda x: x
            (model(torch.ones(1, 4), "left").sum() + model(torch.ones(1, 4), "right").sum()).backward()
        return [*said, str(caught.value)]

    for told in launch.run(unforeseen, 2)[0]:
        assert "left." in told and "got a gradient, but what the last forward returned does not lead to it" in told


DIFFERENT = {
    "shape": (lambda r: nn.Linear(4, 4 + r), r"\('weight', \(4, 4\), .*", r"\('weight', \(5, 4\)"),
    "type": (lambda r: nn.Linear(4, 4, dtype=FLOATS[r]), r"\('weight', .*float32'\)", r"\('weight', .*float64'\)"),
    "number": (lambda r: nn.Sequential(*(nn.Linear(4, 4) for _ in range(1 + r))), "None", r"\('1.weight'"),
}


@pytest.mark.parametrize(("build", "here", "there"), DIFFERENT.values(), ids=DIFFERENT)
def test_ranks_with_different_models_are_told_so(build, here, there):
    with pytest.raises(launch.RankError, match=f"rank 0 has {here} where rank 1 has {there}"):
        launch.run(lambda: DDP(build(dist.get_rank())), 2)


def compressed(hook) -> tuple[wire.Counted, torch.Tensor, torch.Tensor]:
    torch.manual_seed(dist.get_rank())
    x = torch.randn(16, 8)
    torch.manual_seed(0)
    model, plain = Chain(), Chain()
    plain.load_state_dict(model.state_dict())
    wrapped, reference = DDP(model, hook=hook), DDP(plain)
    reference(x).square().sum().backward()
    with wire.counted() as counted:
        wrapped(x).square().sum().backward()
    return counted, model.a.weight.grad.clone(), plain.a.weight.grad.clone()


def test_fp16_halves_the_bytes_and_rounds_the_gradient():
    gradients = 3 * ONE_LAYER
    for hook, volume in ((ddp.total, gradients), (ddp.total_in_fp16, gradients / 2)):
        for counted, got, exact in launch.run(compressed, 3, hook):
            assert counted.payload["allreduce_"] == volume
            rounded = not torch.equal(got, exact)
            assert rounded == (hook is ddp.total_in_fp16)
            torch.testing.assert_close(got, exact, rtol=4 * 2**-11, atol=1e-3)  # fp16 has 11 bits


def test_it_does_what_torchs_own_does():
    def both() -> None:
        torch.manual_seed(0)
        models = [Chain(), Chain()]
        models[1].load_state_dict(models[0].state_dict())
        own, theirs = DDP(models[0]), nn.parallel.DistributedDataParallel(models[1])
        for number in range(3):
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * number + dist.get_rank()))
            for model in (own, theirs):
                with model.no_sync():
                    model(x).square().sum().backward()
                model(x.flip(0)).square().sum().backward()
            for (name, p), q in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
                torch.testing.assert_close(p.grad, q.grad, msg=name)
            with torch.no_grad():
                for model in models:
                    for p in model.parameters():
                        p -= 0.001 * p.grad
                        p.grad = None

    launch.run(both, 3)


def test_unequal_parts_need_their_weights():
    def weighted() -> tuple[float, float]:
        rank, n = dist.get_rank(), dist.get_world_size()
        x, y = mixed_batch(0)
        torch.manual_seed(0)
        model = Mixed().double()
        twin = copy.deepcopy(model)
        wrapped = DDP(model)
        a, b = x.tensor_split([5])[rank], y.tensor_split([5])[rank]  # 5 rows for rank 0, 7 for rank 1
        gradients = []
        for weight in (n * len(a) / BATCH, 1.0):
            model.zero_grad()
            (mixed_loss(wrapped, a, b) * weight).backward()
            gradients.append(model.last.weight.grad.clone())
        mixed_loss(twin, x, y).backward()
        return [(g - twin.last.weight.grad).abs().max().item() for g in gradients]

    for right, wrong in launch.run(weighted, 2):
        assert right < 1e-12 and wrong > 1e-4
