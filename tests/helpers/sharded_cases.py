"""What people do to a model before, while and after it is sharded: each case trained by every
wrapper, beside one process.

A case ends "equal", "apart by ...", or in the first line of an error that all ranks raise.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from mathlib.model import oracle
from mathlib.parallel.ddp import DDP
from mathlib.parallel.zero.mics import Mics
from mathlib.parallel.zero.stage1 import Zero1
from mathlib.parallel.zero.stage2 import Zero2
from mathlib.parallel.zero.stage3 import Zero3

SHARDED = {
    "ZeRO-1": lambda m, make, layers, **kw: Zero1(m, make, bucket_bytes=300, **kw),
    "ZeRO-2": lambda m, make, layers, **kw: Zero2(m, make, bucket_bytes=300, **kw),
    "ZeRO-3": Zero3,
    "MiCS": lambda m, make, layers, **kw: Mics(
        m, make, layers, shard=dist.get_world_size(), whole_below=7, bucket_elements=40, **kw
    ),
}
WAYS = [*SHARDED, "DDP", "FSDP2"]
SEQUENCES, STEPS = 20, 2


@cache
def all_ranks() -> DeviceMesh:
    return init_device_mesh("cpu", (dist.get_world_size(),))


class Layer(nn.Module):
    def __init__(self, **how: Any):
        super().__init__()
        self.dense = nn.Linear(5, 5, **how)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x).tanh()


class Net(nn.Module):
    """Three layers and a head."""

    def __init__(self, layer: Callable[[], nn.Module] = Layer):
        super().__init__()
        self.layers = nn.ModuleList(layer() for _ in range(3))
        self.head = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Run:
    """A model in training under one wrapper, in the words of a training loop."""

    def __init__(self, way: str, case: "Case"):
        self.way, self.case = way, case
        torch.manual_seed(0 if way in ("one", "FSDP2") else dist.get_rank())
        self.inner = case.build().to(case.dtype)
        groups = case.groups or (lambda model: None)
        self.zero = None
        self.model = self.inner
        layers = list(self.inner.layers)
        if way in SHARDED:
            options = {"groups": groups(self.inner), **case.options}
            self.zero = SHARDED[way](self.inner, case.make, layers, **options)
            self.optimizer = self.zero.optimizer
            return
        if way == "FSDP2":
            for part in [*layers, self.inner]:
                fully_shard(part, mesh=all_ranks())
        given = groups(self.inner) or [p for p in self.inner.parameters() if p.requires_grad]
        self.optimizer = case.make(given)
        if way == "DDP":
            self.model = DDP(self.inner)

    def loss(self, step: int, part: int = 0, parts: int = 1) -> Tensor:
        """Of this rank's sequences; a mean over the ranks then is the mean over the batch."""
        batch = self.case.batch(step)
        x, y = batch if self.way == "one" else oracle.my_part(batch)
        whole = len(batch[0]) if self.way == "one" else len(batch[0]) / dist.get_world_size()
        x, y = x.tensor_split(parts)[part], y.tensor_split(parts)[part]
        x = x.to(self.inner.head.weight.dtype)
        return F.mse_loss(self.model(x).to(y.dtype), y) * len(x) / whole

    def update(self) -> None:
        if self.zero is not None:
            self.zero.step()
            return
        if "clip" in self.case.options:
            nn.utils.clip_grad_norm_(self.inner.parameters(), self.case.options["clip"])
        self.optimizer.step()
        self.optimizer.zero_grad()

    def state(self) -> list[Tensor]:
        """Weights and buffers."""
        if isinstance(self.zero, Zero3):
            whole = self.zero.full_weights()
            weights = [whole[name] for name, _ in self.inner.named_parameters()]
        else:
            weights = [getattr(p, "full_tensor", lambda p=p: p)() for p in self.inner.parameters()]
        return [t.detach().clone() for t in (*weights, *self.inner.buffers())]


def sgd(groups: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def plainly(run: Run, step: int) -> None:
    run.loss(step).backward()
    run.update()


def dense_batch(step: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(step)
    x = torch.randn(SEQUENCES, 5, generator=draw, dtype=torch.float64)
    return x, x.sin().sum(1, keepdim=True)


@dataclass(frozen=True)
class Case:
    """How one model is built, wrapped and trained; `told` is what a way says, if not "equal"."""

    build: Callable[[], nn.Module] = Net
    make: Callable[[Any], torch.optim.Optimizer] = sgd
    groups: Callable[[nn.Module], Any] | None = None
    wrapped: Callable[[Run], object] = lambda run: None
    train: Callable[[Run, int], object] = plainly
    batch: Callable[[int], tuple[Tensor, Tensor]] = dense_batch
    options: dict[str, Any] = field(default_factory=dict)  # of our sharded classes
    dtype: torch.dtype = torch.float64
    close: float = oracle.EQUAL
    beside: str = "one"
    ways: list[str] = field(default_factory=lambda: WAYS)
    told: dict[str, str] = field(default_factory=dict)


def ours(pattern: str, **others: str) -> dict[str, str]:
    return dict.fromkeys(SHARDED, pattern) | others


# --- what cases are made of ---


class Tied(Net):
    def __init__(self) -> None:
        super().__init__()
        self.layers[2].dense.weight = self.layers[0].dense.weight


class Twice(Net):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.layers[1](x))


class Scalar(Net):
    """Fewer numbers than ranks in a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers.append(nn.PReLU())
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.scale


class Crossed(nn.Module):
    """Transposed matrices, used in another order than they stand."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for _ in range(3):
            layer = Layer(bias=False)
            layer.dense.weight = nn.Parameter(torch.randn(5, 5).t() / 2)
            self.layers.append(layer)
        self.head = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        for number in (1, 2, 0):
            x = self.layers[number](x)
        return self.head(x)


class Mixed(Net):
    def __init__(self) -> None:
        super().__init__()
        self.single = nn.Parameter(torch.ones(5))

    def to(self, dtype: torch.dtype) -> nn.Module:
        nn.Module.to(self, dtype)
        self.single.data = self.single.data.float()
        return self

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.double() * self.single)


class Penalised(Net):
    """Its input's gradient belongs to the loss."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        y = super().forward(x)
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y + slope.square().sum(1, keepdim=True)


class Looked(Net):
    """Embeds numbers, sparsely or not."""

    def __init__(self, sparse: bool):
        super().__init__()
        self.embedding = nn.Embedding(7, 5, sparse=sparse)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.embedding((x[:, 0] * 3).long() % 7))


class Normed(Net):
    def __init__(self) -> None:
        super().__init__(lambda: nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.Tanh()))


class Recomputed(Net):
    def __init__(self, reentrant: bool):
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(x)


class Broken(Net):
    """Its second forward raises, and so does the backward of its third."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 2:
            raise ArithmeticError("forward")
        y = super().forward(self.layers[1](x))
        if self.calls == 3:

            def fails(_: Tensor) -> None:
                raise ArithmeticError("backward")

            y.register_hook(fails)
        return y


class Spare(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(5, 5)


def frozen(*names: str) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        net = Net()
        for name in names:
            net.get_submodule(name).requires_grad_(False)
        return net

    return build


class BiasOnly(Net):
    def __init__(self) -> None:
        super().__init__()
        for name, p in self.named_parameters():
            p.requires_grad_(name.endswith("bias"))


class Lamb(torch.optim.SGD):
    """Scales a step by the norm of its tensor."""

    def step(self, closure: None = None) -> None:
        for p in (p for group in self.param_groups for p in group["params"]):
            p.grad.mul_(p.detach().norm() / p.grad.norm())
        super().step()


class Sign(torch.optim.Optimizer):
    """Somebody's own, element by element."""

    def __init__(self, groups: Any):
        super().__init__(groups, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad / (1 + p.grad.abs()))


class ClipsItself(torch.optim.SGD):
    """Looks at the norm of all that it has."""

    def step(self, closure: None = None) -> None:
        nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.01)
        super().step()


class Masters(torch.optim.Optimizer):
    """One process's fp32 weights beside a bf16 module, and what is written into it."""

    def __init__(self, groups: Any):
        super().__init__(groups, {"lr": 0.1})
        self.held = [(p, p.detach().float()) for g in self.param_groups for p in g["params"]]

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        for p, master in self.held:
            edited = p != master.to(p.dtype)
            master[edited] = p[edited].float()
            master -= 0.1 * p.grad.float()
            p.copy_(master)


def by_kind(model: nn.Module) -> list[dict[str, Any]]:
    """Matrices and vectors with options of their own."""
    return [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.3},
        {"params": [p for p in model.parameters() if p.dim() < 2], "lr": 0.05},
    ]


def written_by(groups: Any) -> torch.optim.Optimizer:
    return (Masters if isinstance(groups[0], Tensor) else sgd_plain)(groups)


def sgd_plain(groups: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=0.1)


def accumulated(run: Run, step: int) -> None:
    """One part after the other, of unequal sizes."""
    for part in range(3):
        run.loss(step, part, 3).backward()
    run.update()


def after_one_too_many(drop: Callable[[Run], object]) -> Callable[[Run, int], None]:
    """A backward whose gradients are dropped before that of the step."""

    def train(run: Run, step: int) -> None:
        run.loss(step + 7).backward()
        drop(run)
        plainly(run, step)

    return train


def dropped(run: Run, step: int) -> None:
    run.loss(step).backward()
    run.inner.zero_grad()
    run.update()


def with_zeros(run: Run, step: int) -> None:
    """Gradients of zero: the optimizer's momentum goes on."""
    plainly(run, step)
    run.loss(step).backward()
    run.inner.zero_grad(set_to_none=False)
    run.update()


def later(change: Callable[[Run], object]) -> Callable[[Run, int], None]:
    """Something is changed after the first step."""

    def train(run: Run, step: int) -> None:
        if step == 1:
            change(run)
        plainly(run, step)

    return train


def loaded(part: str = "") -> Callable[[Run, int], None]:
    """Other weights are loaded after the first step."""

    def load(run: Run) -> None:
        torch.manual_seed(1)
        other = run.case.build().to(run.case.dtype).get_submodule(part)
        target = run.inner.get_submodule(part)
        if run.way == "FSDP2":
            whole = StateDictOptions(full_state_dict=True)
            set_model_state_dict(target, other.state_dict(), options=whole)
        else:
            target.load_state_dict(other.state_dict())

    return later(load)


def edited(run: Run, step: int) -> None:
    plainly(run, step)
    with torch.no_grad():
        run.inner.head.weight.mul_(0.5)


def evaluated(run: Run, step: int) -> None:
    run.inner.eval()
    with torch.no_grad():
        run.loss(step)
    run.inner.train()
    plainly(run, step)


def scheduled(run: Run, step: int) -> None:
    if step == 0:
        run.schedule = torch.optim.lr_scheduler.LambdaLR(run.optimizer, lambda s: s / 3)
    plainly(run, step)
    run.schedule.step()


def kept_and_restored(run: Run, step: int) -> None:
    plainly(run, step)
    run.optimizer.load_state_dict(run.optimizer.state_dict())


def insisting(run: Run, step: int) -> None:
    """Whatever breaks is run again from the forward."""
    for _ in range(3):
        try:
            run.loss(step).backward()
            break
        except ArithmeticError:
            run.inner.zero_grad()
    run.update()


def twice_through(run: Run, step: int) -> None:
    loss = run.loss(step)
    loss.backward(retain_graph=True)
    loss.backward()
    run.update()


def with_graph(run: Run, step: int) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using backward\\(\\) with create_graph")
        run.loss(step).backward(create_graph=True)
    run.update()


def probed(run: Run, step: int) -> None:
    """The gradient of the input is looked at first."""
    x = run.case.batch(step)[0].requires_grad_()
    torch.autograd.grad(run.model(x).sum(), x)
    plainly(run, step)


class Matrices(Net):
    def __init__(self) -> None:
        super().__init__(lambda: Layer(bias=False))
        self.head = nn.Linear(5, 1, bias=False)


def compiled(how: str) -> Callable[[Run], None]:
    def compile(run: Run) -> None:
        if how == "around":
            run.model = torch.compile(run.model, backend="aot_eager")
        else:
            run.inner.compile(backend="aot_eager")

    return compile


class CompiledLayers(Net):
    def __init__(self, in_place: bool):
        super().__init__()
        for number, layer in enumerate(list(self.layers)):
            if in_place:
                layer.compile(backend="aot_eager")
            else:
                self.layers[number] = torch.compile(layer, backend="aot_eager")


def unfreeze(run: Run) -> None:
    run.inner.layers[1].requires_grad_(True)


def more_parameters(run: Run) -> None:
    unfreeze(run)
    run.optimizer.add_param_group({"params": list(run.inner.layers[1].parameters())})


def freeze_in_optimizer(run: Run) -> None:
    run.optimizer.param_groups[0]["params"][0].requires_grad_(False)


def hooked(run: Run) -> None:
    run.inner.head.weight.register_hook(lambda gradient: gradient * 2)


CHANGED = "RuntimeError: the module is not what was wrapped"
WHOLE = "InputError: optimizer = "
LACKING = "MissingGradients: "
BROKEN = "RuntimeError: a backward (has not ended|began while another had not ended)"
GRAPH = "RuntimeError: a backward with create_graph=True"
SPARSE = "TypeError: embedding.weight has a gradient of layout torch.sparse_coo"
AWAY = "RuntimeError: unsupported operation: more than one element of the written-to tensor"
TWICE = dict.fromkeys(["DDP", "FSDP2"], "ValueError: some parameters appear in more than one")
NO_MASTERS = "RuntimeError: aten.nonzero"  # our optimizer of one process cannot read a DTensor
CLOSURE = "TypeError: LBFGS.step"
GATHERED = ["ZeRO-3", "MiCS"]  # whose weights compiled code would miss
COMPILED: dict[str, Any] = {"ways": GATHERED}
BF16 = {"dtype": torch.bfloat16, "close": 0.03, "options": {"master": True}, "make": written_by}

CASES: dict[str, Case] = {
    "nothing special": Case(),
    "Adam": Case(make=lambda g: torch.optim.Adam(g, lr=0.01)),
    "AdamW, foreach": Case(make=lambda g: torch.optim.AdamW(g, lr=0.01, foreach=True)),
    "Adagrad": Case(make=lambda g: torch.optim.Adagrad(g, lr=0.01)),
    "an optimizer of one's own": Case(make=Sign),
    "a schedule": Case(train=scheduled),
    "states saved and loaded": Case(train=kept_and_restored),
    "clipping": Case(options={"clip": 0.05}),
    "a clip above the norm": Case(options={"clip": 1e3}),
    # groups
    "groups of lists": Case(groups=by_kind),
    "a generator in a group": Case(groups=lambda m: [{"params": (p for p in m.parameters())}]),
    "a filter in a group": Case(
        build=frozen("layers.1"),
        groups=lambda m: [{"params": filter(lambda p: p.requires_grad, m.parameters())}],
    ),
    "parameters() in a group": Case(groups=lambda m: [{"params": m.parameters()}]),
    "parameters() for groups": Case(groups=lambda m: m.parameters()),
    "named_parameters() for groups": Case(groups=lambda m: m.named_parameters()),
    "groups from a generator": Case(groups=lambda m: (g for g in by_kind(m))),
    "one tensor in a group": Case(
        groups=lambda m: [
            {"params": m.head.weight, "lr": 0.3},
            {"params": [p for p in m.parameters() if p is not m.head.weight]},
        ]
    ),
    "a frozen parameter in a group": Case(
        build=frozen("layers.1"), groups=lambda m: [{"params": list(m.parameters())}]
    ),
    "a parameter in two groups": Case(
        groups=lambda m: [{"params": [m.head.bias]}, {"params": list(m.parameters())}],
        told=ours("InputError: groups: a parameter stands in two groups", **TWICE),
    ),
    "a parameter in no group": Case(
        groups=lambda m: [{"params": list(m.layers.parameters())}],
        told=ours("InputError: groups: head.weight, head.bias in no group"),
    ),
    "another model's parameter": Case(
        groups=lambda m: [{"params": [*m.parameters(), nn.Parameter(torch.ones(1))]}],
        told=ours("InputError: groups: 1 parameters are not the module's"),
    ),
    # freezing
    "a frozen layer": Case(build=frozen("layers.1")),
    "biases alone": Case(build=BiasOnly),
    "unfrozen when wrapped already": Case(
        build=frozen("layers.1"), train=later(unfreeze), told=ours(CHANGED, DDP=CHANGED)
    ),
    "frozen when wrapped already": Case(
        train=later(lambda run: run.inner.layers[1].requires_grad_(False)),
        told=ours(CHANGED, DDP=CHANGED),
    ),
    "frozen in the optimizer": Case(
        train=later(freeze_in_optimizer), told=ours(CHANGED, DDP=CHANGED)
    ),
    "a group added later": Case(
        build=frozen("layers.1"), train=later(more_parameters), told=ours(CHANGED, DDP=CHANGED)
    ),
    # weights from elsewhere
    "load_state_dict": Case(train=loaded()),
    "load_state_dict of a layer": Case(train=loaded("layers.1")),
    "load_state_dict of the head": Case(train=loaded("head")),
    "load_state_dict with masters": Case(train=loaded(), **BF16, told={"FSDP2": NO_MASTERS}),
    "load_state_dict of a layer with masters": Case(
        train=loaded("layers.0.dense"), **BF16, told={"FSDP2": NO_MASTERS}
    ),
    "masters": Case(**BF16, told={"FSDP2": NO_MASTERS}),
    "weights edited": Case(train=edited, told=dict.fromkeys(["ZeRO-3"], AWAY)),
    "weights edited with masters": Case(
        train=edited, **BF16, told={"ZeRO-3": AWAY, "FSDP2": NO_MASTERS}
    ),
    "state_dict": Case(
        train=later(lambda run: run.inner.layers.state_dict()),
        told=dict.fromkeys(GATHERED, "InputError: state_dict: a rank has only shards"),
    ),
    # gradients dropped
    "zero_grad before all": Case(
        train=lambda run, step: (
            run.inner.zero_grad(),
            run.optimizer.zero_grad(),
            plainly(run, step),
        )
    ),
    "zero_grad of the module": Case(train=after_one_too_many(lambda run: run.inner.zero_grad())),
    "zero_grad of the optimizer": Case(
        train=after_one_too_many(lambda run: run.optimizer.zero_grad())
    ),
    "zero_grad to zeros": Case(train=with_zeros),
    "zero_grad, then a step": Case(train=dropped, told=ours(LACKING)),
    # optimizers that look at whole tensors
    "LAMB": Case(make=lambda g: Lamb(g, lr=0.1), told=ours(WHOLE + "Lamb: looks at whole")),
    "an optimizer that clips": Case(
        make=lambda g: ClipsItself(g, lr=0.1), told=ours(WHOLE + "ClipsItself: looks at whole")
    ),
    "Adafactor": Case(
        make=torch.optim.Adafactor,
        told=ours(WHOLE + "Adafactor: looks at whole", FSDP2="RuntimeError: aten.pow_"),
    ),
    "Muon": Case(
        build=Matrices,
        make=torch.optim.Muon,
        told=ours(WHOLE + "Muon: cannot update a shard", FSDP2="RuntimeError: aten.add_"),
    ),
    "LBFGS": Case(
        make=torch.optim.LBFGS,
        told=ours(WHOLE + "LBFGS: cannot update a shard", DDP=CLOSURE, FSDP2=CLOSURE),
    ),
    # conversions
    "double() of doubles": Case(train=later(lambda run: run.inner.double())),
    "float() when wrapped already": Case(
        train=later(lambda run: run.inner.float()),
        told=ours(CHANGED, DDP=CHANGED, FSDP2="RuntimeError: Expected out tensor"),
    ),
    "to() another place in memory": Case(
        train=later(
            lambda run: setattr(run.inner.head.weight, "data", run.inner.head.weight.data.clone())
        ),
        told=dict.fromkeys(
            ["ZeRO-1", "ZeRO-2", "MiCS"], CHANGED + ": head.weight no longer in the flat buffer"
        ),
    ),
    "a parameter added": Case(
        train=later(lambda run: setattr(run.inner, "more", nn.Parameter(torch.ones(1)))),
        told=ours(CHANGED, DDP=CHANGED),
    ),
    # compiled
    "compiled layers": Case(build=lambda: CompiledLayers(in_place=False), **COMPILED),
    "layers compiled in place": Case(build=lambda: CompiledLayers(in_place=True), **COMPILED),
    "compiled around": Case(wrapped=compiled("around"), **COMPILED),
    "compiled in place": Case(wrapped=compiled("in place"), **COMPILED),
    # the model
    "tied weights": Case(build=Tied, told={"FSDP2": "ValueError: Parameter .* is shared"}),
    "a layer used twice": Case(build=Twice),
    "a single number": Case(
        build=Scalar, told={"FSDP2": "ValueError: fully_shard doesn't support scalar"}
    ),
    "transposed, in another order": Case(
        build=Crossed, told={"FSDP2": "NotImplementedError: FSDP does not support non-contiguous"}
    ),
    "types mixed": Case(
        build=Mixed,
        close=1e-6,
        told={"FSDP2": "AssertionError: FSDP expects uniform original parameter dtype"},
    ),
    "BatchNorm": Case(build=Normed, beside="DDP", told={"FSDP2": "apart|equal"}),
    "an embedding": Case(build=lambda: Looked(sparse=False)),
    "a sparse embedding": Case(
        build=lambda: Looked(sparse=True),
        told=ours(SPARSE, DDP=SPARSE, FSDP2="NotImplementedError"),
    ),
    "recomputed": Case(build=lambda: Recomputed(reentrant=False)),
    "recomputed, reentrant": Case(
        build=lambda: Recomputed(reentrant=True),
        told=dict.fromkeys(["ZeRO-2", "ZeRO-3", "MiCS", "DDP"], BROKEN),
    ),
    "a parameter without a gradient": Case(build=Spare, told=ours(LACKING, DDP=LACKING)),
    # the loop
    "accumulation of unequal parts": Case(train=accumulated),
    "ranks of unequal parts": Case(batch=lambda step: tuple(t[:19] for t in dense_batch(step))),
    "evaluation in between": Case(train=evaluated),
    "backward twice": Case(train=twice_through),
    "a hook on a weight": Case(wrapped=hooked, told={"FSDP2": "apart"}),
    "the input's gradient": Case(train=probed),
    "a gradient penalty": Case(
        build=Penalised,
        told=dict.fromkeys(GATHERED, GRAPH) | {"FSDP2": "RuntimeError: setStorage"},
    ),
    "gradients with a graph": Case(
        train=with_graph,
        told=dict.fromkeys(["ZeRO-2", "ZeRO-3", "MiCS"], GRAPH)
        | {"DDP": "RuntimeError: head.bias has a gradient with a graph"},
    ),
    "a forward and a backward that break": Case(build=Broken, train=insisting),
}


def trained(way: str, case: Case) -> list[list[Tensor]]:
    run = Run(way, case)
    case.wrapped(run)
    history = []
    for step in range(STEPS):
        case.train(run, step)
        history.append(run.state())
    return history


def verdict(way: str, case: Case, wanted: list[list[Tensor]]) -> str:
    try:
        found = trained(way, case)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if not wanted:
        return "trained, as one process cannot"
    far = max(
        (mine.double() - theirs.double()).abs().max().item()
        for here, there in zip(found, wanted, strict=True)
        for mine, theirs in zip(here, there, strict=True)
    )
    return "equal" if far < case.close else oracle.judged(far)


CUT = [  # where shards end within a tensor, differ in length or are empty
    *("nothing special", "an optimizer of one's own", "clipping", "groups of lists"),
    *("one tensor in a group", "biases alone", "load_state_dict of a layer", "masters"),
    *("load_state_dict with masters", "tied weights", "a layer used twice", "a single number"),
    *("transposed, in another order", "types mixed", "an embedding", "BatchNorm"),
    *("accumulation of unequal parts", "ranks of unequal parts"),
]


def expected(ranks: int) -> dict[str, dict[str, str]]:
    """What each way says of each case on so many ranks: of all on 2, on more of ours where shards
    are cut otherwise.
    """
    tried = {name: (CASES[name], SHARDED) for name in CUT}
    if ranks == 2:
        tried = {name: (case, case.ways) for name, case in CASES.items()}
    return {
        name: {way: case.told.get(way, "equal") for way in ways}
        for name, (case, ways) in tried.items()
    }


def table() -> dict[tuple[str, str], str]:
    """What this rank says of each case, by case and way."""
    said = {}
    for name, told in expected(dist.get_world_size()).items():
        case = CASES[name]
        # where one process cannot train either, nobody is said to be equal
        wanted = trained(case.beside, case) if "equal" in told.values() else []
        said |= {(name, way): verdict(way, case, wanted) for way in told}
    return said
