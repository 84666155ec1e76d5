"""ZeRO stage 3: a rank keeps 1/N of everything, and a layer is whole only while it computes.

N ranks    K bytes of weights
Before a layer's forward its rows are gathered, after it they are given back; the same again in
backward, where its gradients leave as soon as all have come: 3 K (N-1)/N sent by a rank in a step.
The next layer's gather begins before this layer computes, so that both take their time together.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_leaves

from mathlib.checks import InputError
from mathlib.parallel.zero import flat_shards
from mathlib.parallel.zero.flat_shards import Fill, FlatShard, alike
from mathlib.parallel.zero.sharded_optimizer import MakeOptimizer
from mathlib.parallel.zero.stage1 import in_backward
from mathlib.parallel.zero.stage2 import Zero2


class Zero3(Zero2):
    """As Zero2, for a module with `layers` inside, such as a GPT's blocks, each of which comes and
    goes.

    What stands in no layer, or in two, is gathered when forward begins and stays to the end of
    backward. The gathers of the next `prefetch` layers begin before this layer computes.

    A model built on the meta device, which has shapes and no numbers, needs `fill`, such as
    gpt.fill: called with a parameter's name and a tensor, on every rank alike.

    Each rank keeps its shards of what load_state_dict loads: call it on all ranks.
    """

    KEEPS_ITS_GRAPH = (
        "a backward with create_graph=True, for a second one through its gradients: weights would "
        "be given back before that one reads them. Expected Zero1, Zero2 or DDP"
    )

    def __init__(
        self,
        module: nn.Module,
        make: MakeOptimizer,
        layers: Iterable[nn.Module],
        *args: Any,
        prefetch: int = 1,
        fill: Fill | None = None,
        **kwargs: Any,
    ):
        self.prefetch, self.fill, self.layers = prefetch, fill, list(layers)
        self.rows: dict[nn.Module, list[FlatShard]] = {}  # frozen ones too
        self.order: list[nn.Module] = []  # of the layers' calls in the last forward
        self.path: list[nn.Module] = []  # calls that backward has not come to
        self.passing: nn.Module | None = None  # the layer that backward is in
        self.called = {part: name or "the rest" for name, part in module.named_modules()}
        self.computed: Callable[[], None] = lambda: None  # ends the layer's event in the trace
        inner = {part for layer in self.layers for part in layer.modules() if part is not layer}
        if twice := inner & set(self.layers):
            raise InputError(
                f"layers: {len(twice)} stand inside another, expected them side by side"
            )
        super().__init__(module, make, *args, **kwargs)
        aside = torch.compiler.disable
        module.register_forward_hook(aside(lambda _, __, output: self._stop(output)))
        for layer in self.layers:
            layer.register_forward_pre_hook(aside(lambda layer, _: self._enter(layer)))
            layer.register_forward_hook(aside(lambda layer, _, output: self._leave(layer, output)))
        for part in self.rows:
            self._serve_state_dicts(part)

    def _serve_state_dicts(self, part: nn.Module) -> None:
        """load_state_dict of the module, or of anything in it, finds weights to write into;
        state_dict would give what a parameter reads as while it is away.
        """
        mine = {p for row in self.rows[part] for p in row.names}
        for owner in part.modules():
            if mine.isdisjoint(owner.parameters(recurse=False)):
                continue
            owner.register_load_state_dict_pre_hook(lambda *_: self._gather(part))
            owner.register_load_state_dict_post_hook(lambda *_: self._take(part))
            owner.register_state_dict_pre_hook(_no_state_dict)
        part.register_load_state_dict_post_hook(lambda *_: self._release(part))

    @torch.no_grad()
    def _take(self, part: nn.Module) -> None:
        """The shards take the weights that were written into whole rows."""
        for row in self.rows[part]:
            row.take()

    def _start_alike(self) -> None:
        """With `fill`, no rank ever has all weights: each row is filled, and cut, by itself."""
        if self.fill is None:
            return super()._start_alike()
        flat_shards.placeholders(self.module)
        self._tell_all(self.module.buffers())

    def _lay_out(self) -> list[tuple[int, nn.Parameter]]:
        group_of = {p: number for number, group in enumerate(self.groups) for p in group["params"]}
        owner = self._owners()
        found = []
        for part in [self.module, *self.layers]:
            self.rows[part] = []
            for number in (*range(len(self.groups)), None):  # None: frozen
                mine = [p for p in self.names if owner[p] is part and group_of.get(p) == number]
                for names in self._rows({p: self.names[p] for p in mine}):
                    row = self._row(names)
                    self.rows[part].append(row)
                    if number is not None:
                        self.shards.append(row)
                        found.append((number, row.shard))
        return found

    def every_row(self) -> list[FlatShard]:
        """Those of frozen parameters too."""
        return [row for rows in self.rows.values() for row in rows]

    def _rows(self, names: dict[nn.Parameter, str]) -> list[dict[nn.Parameter, str]]:
        """Which parameters of a layer share a row: all that can."""
        return list(alike(names))

    def _row(self, names: dict[nn.Parameter, str]) -> FlatShard:
        return FlatShard(
            *(names, self.group), kept=False, master=self.master, fill=self.fill, trace=self.trace
        )

    def _owners(self) -> dict[nn.Parameter, nn.Module]:
        """The layer that a parameter comes and goes with; the whole module, if it is in two."""
        owner: dict[nn.Parameter, nn.Module] = {}
        for layer in self.layers:
            for p in layer.parameters():
                owner[p] = self.module if p in owner else layer
        return {p: owner.get(p, self.module) for p in self.names}

    def _name_rows(self) -> None:
        """What the trace calls them: the layer; with a number, if it has several rows."""
        for part, rows in self.rows.items():
            for number, row in enumerate(rows):
                row.name = self.called[part] + (f", row {number}" if len(rows) > 1 else "")

    def _start(self) -> None:
        """The whole module's forward begins."""
        super()._start()
        self._gather(self.module)
        self.order, self.path, self.last_order = [], [], self.order
        self.passing = None

    def _stop(self, output: object) -> None:
        """The whole module's forward ends: what stands in no layer stays for the backward."""
        if not torch.is_grad_enabled():  # none will come
            self._release_all()
        else:  # a second one, through the same graph, finds it given back
            _before_backward(output, lambda: self._gather(self.module))

    def _enter(self, layer: nn.Module) -> None:
        """A layer's forward begins, the first time or again in backward."""
        self._gather(layer)
        if in_backward():
            return
        self.order.append(layer)
        done = len(self.order)
        self._look_ahead(self.last_order[done : done + self.prefetch])
        self.computed = self.trace.begin(f"forward of {self.called[layer]}")

    def _leave(self, layer: nn.Module, output: object) -> None:
        """A layer's forward ends: give its rows back, until the gradient of its output comes."""
        if in_backward():
            return
        self.computed()
        self._release(layer)
        if _before_backward(output, lambda: self._return(layer)):
            self.path.append(layer)

    def _return(self, layer: nn.Module) -> None:
        """Backward comes to a layer."""
        self._begin()
        while self.path and self.path.pop() is not layer:
            continue
        self._pass()
        self.passing = layer
        self._gather(layer)
        self._look_ahead(self.path[: -1 - self.prefetch : -1])
        self.computed = self.trace.begin(f"backward of {self.called[layer]}")

    def _pass(self) -> None:
        """Backward is through with a layer: autograd takes one after the other."""
        if self.passing is not None:  # a compiled layer is asked for its length else
            self.computed()
            self._release(self.passing)
        self.passing = None

    def _look_ahead(self, layers: Sequence[nn.Module]) -> None:
        """Begin to gather what comes next."""
        for layer in layers:
            for row in self.rows[layer]:
                row.begin_gather()

    def _gather(self, part: nn.Module) -> None:
        for row in self.rows[part]:
            row.gather()

    def _release(self, part: nn.Module) -> None:
        for row in self.rows[part]:
            row.release()

    def _send(self, row: FlatShard) -> None:
        """Its gradients have all come, so nothing will read its weights any more."""
        super()._send(row)
        row.release()

    def _finish(self) -> None:
        self._pass()
        if any(len(self.missing[s]) < len(s.names) for s in self.shards):
            super()._finish()
        else:  # torch.autograd.grad of the inputs alone
            self.backward = None
        self._release_all()

    def _release_all(self) -> None:
        for part in self.rows:
            self._release(part)

    def _publish(self) -> None:
        """Nobody needs the new weights before the next gather; what is whole still has the old."""
        self._release_all()

    @torch.no_grad()
    def full_weights(self) -> dict[str, Tensor]:
        """Every parameter by its name, whole, as a plain module's load_state_dict takes them."""
        whole: dict[str, Tensor] = {}
        for part, rows in self.rows.items():
            self._gather(part)
            for row in rows:
                whole |= {name: p.detach().clone() for p, name in row.names.items()}
            self._release(part)
        every = self.module.named_parameters(remove_duplicate=False)
        return {name: whole[self.names[p]] for name, p in every} | dict(self.module.named_buffers())


def _no_state_dict(*_: object) -> NoReturn:
    raise InputError(
        "state_dict: a rank has only shards of these weights, expected full_weights(), or "
        "mathlib.parallel.checkpoint to save them"
    )


def _before_backward(output: object, call: Callable[[], None]) -> bool:
    """Call when the gradient of an output comes, in every backward; whether one can."""
    outputs = [t for t in tree_leaves(output) if isinstance(t, Tensor) and t.requires_grad]
    if outputs and torch.is_grad_enabled():
        register_multi_grad_hook(outputs, lambda _: call(), mode="any")
        return True
    return False
