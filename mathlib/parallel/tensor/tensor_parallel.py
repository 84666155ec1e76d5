"""A model cut over tensor ranks, in the manner of Megatron, with or without sequence parallelism.

t tensor ranks · a heads · k kv_heads · d head_dim · V padded vocabulary · s/t   tokens of a rank
Every rank calls the same with the same batch. What each has after a step is its part of what one
process has: matrices are cut, norms and positions are alike on all ranks. A parameter that is alike
but sees only some heads (the norms of queries and keys, a key-value head that ranks share) or only
some tokens (sequence parallelism's norms and biases) has a partial sum of its gradient on each
rank, which a hook adds up. Without it the loss agrees, and the gradient does not.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.utils.checkpoint import checkpoint

from mathlib.checks import InputError, divides, flag, non_negative
from mathlib.model import gpt, llama, modern
from mathlib.parallel.pipeline.model_chunks import Chunk
from mathlib.parallel.tensor import conjugates, dropout_masks
from mathlib.parallel.tensor.split_matrices import Columns, Exchange, Reading, Rows
from mathlib.parallel.tensor.split_tensors import WHOLE, Cut, share, sharers
from mathlib.parallel.tensor.split_words import Words, cross_entropy

MODELS = (gpt.GPT, llama.Llama, modern.Modern, Chunk)
ROWS = ("out", "down")
EXPERTS = ".experts."  # in the names of what another axis shares out
Of = Callable[[nn.Parameter], Tensor]  # what of a parameter is joined: its numbers, its gradient


class TensorParallel(nn.Module):
    """This rank's part of a model or of a pipeline's chunk, which is cut in place; it starts as
    the group's first rank's.

    A model on the meta device is filled by name, a matrix at a time: the same on every degree, and
    no rank ever has more than one whole matrix. `chunked` hides exchanges behind matmuls.
    `dropout`, while training, is that of GPT-2: of scores, of each result, of the embedding.
    """

    def __init__(
        self,
        model: Any,
        group: ProcessGroup | None = None,
        *,
        sequence_parallel: bool = False,
        chunked: bool = False,
        dropout: float = 0.0,
        seed: int = 0,
    ):
        super().__init__()
        self.rank, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        check(model, self.ranks)
        if flag("chunked", chunked) and not flag("sequence_parallel", sequence_parallel):
            raise InputError("chunked = True: expected sequence_parallel = True, which has chunks")
        self.group, self.seed, self.names = group, seed, getattr(model, "ties", {})
        self.how = Exchange(group, sequence_parallel, chunked)
        self.heads, _ = count_heads(model)
        named = model.named_parameters()
        self.sizes = {name: p.shape for name, p in named if EXPERTS not in name}
        self.cuts = {name: cut_of(name, model) for name in self.sizes}
        ends = [getattr(model, end, None) for end in ("tokens", "head")]
        self.first, self.last = (end is not None for end in ends)
        words = max((len(end.weight) for end in ends if end is not None), default=0)
        self.own = share(words, self.rank, self.ranks) if words else range(0)
        self.positions = getattr(model, "positions", None) is not None
        self._cut(model)
        self.model = model
        self._sum_partial_gradients()
        self.dropout = non_negative("dropout", dropout)
        if dropout:
            self._drop()

    def forward(self, x: Tensor) -> Tensor:  # b s -> b s V/t
        """Logits of this rank's words; a chunk may begin or end with b s h, or b s/t h."""
        model: Any = self.model
        if self.first:
            x = self._embedded(x)
        full = getattr(model, "recompute", "none") == "full"
        for block in model.blocks.children():
            x = checkpoint(block, x, use_reentrant=False) if full else block(x)
        return model.head(model.norm(x)) if self.last else x

    def _embedded(self, tokens: Tensor) -> Tensor:  # b s -> b s h, or b s/t h
        how, model = self.how, self.model  # type: tuple[Exchange, Any]
        if how.sequence_parallel:
            divides("tensor", self.ranks, "tokens", tokens.shape[1])
        x = model.tokens(tokens)
        if self.positions:
            places = getattr(model, "places", None)
            x = x + model.positions.weight[slice(tokens.shape[1]) if places is None else places]
            x = conjugates.split_forward(x, self.group) if how.sequence_parallel else x
        return self._dropped(x)

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout_masks.stream(x, self.dropout, self.how) if self._drops() else x

    def _drops(self) -> bool:
        return self.training and self.dropout > 0

    def _drop(self) -> None:
        """Drop what the softmax, `out` and `down` give."""
        if self.dropout >= 1:
            raise InputError(f"dropout = {self.dropout}: expected less than 1")
        dropout_masks.check_seeds(self.how)
        for block in self.model.blocks.children():
            if getattr(block.attention, "core", None) is not gpt.plain_attention:
                raise InputError(
                    f"dropout = {self.dropout}: expected 0, or a GPT with plain attention"
                )
            block.attention.core = self._attention
            for rows in (block.attention.out, block.mlp.down):
                rows.register_forward_hook(lambda _, given, y: self._dropped(y))

    def _attention(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not self._drops():
            return gpt.plain_attention(q, k, v)
        heads = share(self.heads, self.rank, self.ranks)
        return dropout_masks.attention(q, k, v, p=self.dropout, heads=heads)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy in nats over the tokens whose target is not -100."""
        return cross_entropy(self(tokens), targets, self.own, self.group)

    def whole_weights(self) -> dict[str, Tensor]:
        """All parameters by the names of the model that was cut; every rank must call this."""
        return self._whole(lambda p: p.detach())

    def whole_gradients(self) -> dict[str, Tensor]:
        """All gradients by those names, zeros where there is none."""
        return self._whole(lambda p: torch.zeros_like(p) if p.grad is None else p.grad)

    def _whole(self, of: Of) -> dict[str, Tensor]:
        found = {}
        for name, p in self.model.named_parameters():
            parts: list[Tensor] = [torch.empty(0)] * self.ranks
            cut = self.cuts[name]
            if cut.whole():
                parts = [of(p).clone()]
            else:
                dist.all_gather_object(parts, of(p).cpu(), self.group)
            found[name] = cut.joined(parts, self.sizes[name][cut.dim])
        return found

    def _part(self, name: str, p: Tensor) -> Tensor:
        """This rank's part of a parameter: of the first rank's numbers, or of its name's."""
        if p.is_meta:
            whole = torch.empty(p.shape, dtype=p.dtype)
            gpt.fill(self.names.get(name, name), whole, self.seed)
        else:
            whole = p.detach().contiguous()
            dist.broadcast(whole, group=self.group, group_src=0)
        return self.cuts[name].mine(whole, self.rank, self.ranks)

    def _cut(self, model: Any) -> None:
        tied, readers = shares_words(model), dict[str, Reading]()
        for name, module in list(model.named_modules()):
            if EXPERTS in name:
                continue
            parent, _, leaf = name.rpartition(".")
            parts = {
                kind: self._part(f"{name}.{kind}", p)
                for kind, p in module.named_parameters(recurse=False)
                if f"{name}.{kind}" in self.sizes  # a tied matrix has the name of the table
            }
            if isinstance(module, nn.Linear) and leaf != "router":
                if "weight" not in parts:
                    parts["weight"] = model.tokens.weight
                reading = readers.setdefault(parent, Reading(self.how))
                made = self._matrix(leaf, parts["weight"], parts.get("bias"), reading)
                model.get_submodule(parent).register_module(leaf, made)
            elif name == "tokens":
                scatter = self.how.sequence_parallel and not self.positions
                model.tokens = Words(parts["weight"], self.own, self.how, scatter)
            else:
                for kind, part in parts.items():
                    module.register_parameter(kind, nn.Parameter(part))
            if isinstance(module, modern.Grouped):
                module.heads //= self.ranks
                module.kv_heads = max(1, module.kv_heads // self.ranks)
        if tied:
            model.head.weight = model.tokens.weight

    def _matrix(
        self, leaf: str, weight: Tensor, bias: Tensor | None, reading: Reading
    ) -> nn.Module:
        if leaf in ROWS:
            return Rows(weight, bias, self.how)
        return Columns(weight, bias, reading)

    def _sum_partial_gradients(self) -> None:
        groups = dict[int, ProcessGroup | None]()
        named = dict(self.model.named_parameters())
        for name, p in ((name, named[name]) for name in self.cuts):
            many = self.partial(name)
            if many > 1 and many not in groups:
                whole = many == self.ranks
                groups[many] = self.group if whole else neighbours(many, self.group)
            if many > 1:
                p.register_hook(lambda g, among=groups[many]: conjugates.reduced(g, among))

    def partial(self, name: str) -> int:
        """Over how many neighbours a gradient is a partial sum; 1: it is whole."""
        cut = self.cuts[name]
        if not cut.whole():
            return sharers(cut.count(self.sizes[name][cut.dim]), self.ranks)
        if ".heads.norms." in name:
            return self.ranks
        tokens = self.how.sequence_parallel and not name.startswith("positions")
        return self.ranks if tokens else 1


def check(model: Any, ranks: int) -> None:
    """Refuse what is not cut right, rather than train another model."""
    if not isinstance(model, MODELS):
        told = ", ".join(kind.__name__ for kind in MODELS)
        raise InputError(f"model = a {type(model).__name__}: expected one of {told}")
    shape = getattr(model, "model", None)
    whole = any(isinstance(part, modern.Experts) for part in model.modules())
    for part, there in (("latent", getattr(shape, "latent", None)), ("experts", whole)):
        if there:
            raise InputError(f"{part} = {getattr(shape, part)}: expected None, as it is not cut")
    heads, kv_heads = count_heads(model)
    divides("tensor", ranks, "heads", heads)
    if kv_heads > ranks:
        divides("tensor", ranks, "kv_heads", kv_heads)
    sharers(kv_heads, ranks)


def head_dim(model: Any) -> int:
    """Numbers of a head."""
    attention = first_attention(model)
    return model.model.head_dim if isinstance(attention, modern.Attention) else attention.head_dim


def first_attention(model: Any) -> Any:
    """Of the first layer that is here."""
    return next(model.blocks.children()).attention


def shares_words(model: Any) -> bool:
    """Whether the head here reads the embedding table here."""
    head, tokens = getattr(model, "head", None), getattr(model, "tokens", None)
    return head is not None and tokens is not None and head.weight is tokens.weight


def neighbours(many: int, group: ProcessGroup | None) -> ProcessGroup | None:
    """The group of so many ranks of a group, next to each other, that this rank is in."""
    ranks = dist.get_process_group_ranks(group or dist.group.WORLD)
    first = dist.get_rank(group) // many * many
    return dist.new_group(ranks[first : first + many], use_local_synchronization=True)


def count_heads(model: Any) -> tuple[int, int]:
    """Heads of queries, and of keys and values."""
    attention = first_attention(model)
    heads = attention.out.in_features // head_dim(model)
    if isinstance(attention, gpt.Attention):
        return heads, heads
    grouped: Any = attention.heads if isinstance(attention, modern.Attention) else attention
    keys = grouped.key
    return heads, keys.out_features // head_dim(model)


def cut_of(name: str, model: Any) -> Cut:
    """How the parameter of this name is cut."""
    path, _, kind = name.rpartition(".")
    parent, _, leaf = path.rpartition(".")
    if path in ("tokens", "head"):
        return Cut(0)
    if not isinstance(model.get_submodule(path), nn.Linear) or leaf == "router":
        return WHOLE
    head = head_dim(model) if ".attention" in f".{parent}" else 1
    if leaf in ROWS:
        return Cut(1, head) if kind == "weight" else WHOLE
    return Cut(0, head, 3 if leaf == "qkv" else 1)
