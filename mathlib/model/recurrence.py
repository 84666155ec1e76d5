"""A recurrent network that trains like a transformer: RWKV-4 (Peng et al. 2023), written out.

Shapes: B sequences, S tokens, h width, f ffn_width, V vocab.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mathlib.model.gpt import initialise
from mathlib.specs import Model


@dataclass
class State:
    """All that a layer knows of the past, whatever its length: five vectors a sequence."""

    before_time: Tensor  # the token before, as the time mixing saw it
    before_channel: Tensor  # and as the channel mixing saw it
    top: Tensor  # largest exponent so far, which keeps the sums below within range
    values: Tensor  # weighted sum of the values
    weights: Tensor  # sum of the weights

    @property
    def nbytes(self) -> int:
        return sum(tensor.untyped_storage().nbytes() for tensor in vars(self).values())


def fresh(B: int, h: int) -> State:
    """Before the first token there is nothing: no weight, and a smallest exponent."""
    zero = torch.zeros(5, B, h).unbind()
    top = torch.full((B, h), -1e38)
    return State(zero[0].clone(), zero[1].clone(), top, zero[3].clone(), zero[4].clone())


def all_at_once(k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor) -> Tensor:  # B S h
    """As attention would do it: a softmax over all tokens so far, whose scores know no query.

    The score of token i at place t is k_i, less the decay for each step between; of t itself, its
    key and the bonus. Every channel has scores of its own, S^2 of them.
    """
    S = k.shape[1]
    here = torch.arange(S)
    back = (here[:, None] - here)[..., None]  # S S 1
    scores = k[:, None] - (back - 1) * decay  # B S S h
    scores = torch.where(back == 0, k[:, None] + bonus, scores)
    weights = scores.masked_fill(back < 0, float("-inf")).softmax(2)
    return torch.einsum("btih,bih->bth", weights, v)


def one_more(k: Tensor, v: Tensor, decay: Tensor, bonus: Tensor, state: State) -> Tensor:  # B h
    """The same, token by token: two sums carry the past, and shrink by the decay at each step."""
    top = torch.maximum(state.top, k + bonus)
    past, now = (state.top - top).exp(), (k + bonus - top).exp()
    y = (past * state.values + now * v) / (past * state.weights + now)
    top = torch.maximum(state.top - decay, k)
    past, now = (state.top - decay - top).exp(), (k - top).exp()
    state.values, state.weights = past * state.values + now * v, past * state.weights + now
    state.top = top
    return y


def shifted(x: Tensor) -> Tensor:  # B S h
    """The token before each: nothing before the first."""
    return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)


class TimeMix(nn.Module):
    """What stands in attention's place."""

    def __init__(self, h: int):
        super().__init__()
        self.decay, self.bonus = nn.Parameter(torch.zeros(h)), nn.Parameter(torch.zeros(h))
        self.mix = nn.Parameter(torch.zeros(3, h))  # of a token with the one before it
        self.key, self.value, self.receptance, self.out = (
            nn.Linear(h, h, bias=False) for _ in range(4)
        )

    def parts(self, x: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v, r = (x * one + before * (1 - one) for one in self.mix)
        return self.key(k), self.value(v), self.receptance(r).sigmoid()

    def forward(self, x: Tensor) -> Tensor:  # B S h, all tokens at once
        k, v, r = self.parts(x, shifted(x))
        return self.out(r * all_at_once(k, v, self.decay.exp(), self.bonus))

    def step(self, x: Tensor, state: State) -> Tensor:  # B h, the next token
        k, v, r = self.parts(x, state.before_time)
        state.before_time = x
        return self.out(r * one_more(k, v, self.decay.exp(), self.bonus, state))


class ChannelMix(nn.Module):
    """What stands in the MLP's place: it sees the token before as well."""

    def __init__(self, h: int, f: int):
        super().__init__()
        self.mix = nn.Parameter(torch.zeros(2, h))
        self.key, self.value = nn.Linear(h, f, bias=False), nn.Linear(f, h, bias=False)
        self.receptance = nn.Linear(h, h, bias=False)

    def forward(self, x: Tensor, before: Tensor | None = None) -> Tensor:  # B S h, or B h
        before = shifted(x) if before is None else before
        k, r = (x * one + before * (1 - one) for one in self.mix)
        return self.receptance(r).sigmoid() * self.value(self.key(k).relu().square())

    def step(self, x: Tensor, state: State) -> Tensor:
        before, state.before_channel = state.before_channel, x
        return self(x, before)


class Block(nn.Module):
    def __init__(self, h: int, f: int):
        super().__init__()
        self.norm1, self.time = nn.LayerNorm(h), TimeMix(h)
        self.norm2, self.channel = nn.LayerNorm(h), ChannelMix(h, f)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.time(self.norm1(x))
        return x + self.channel(self.norm2(x))

    def step(self, x: Tensor, state: State) -> Tensor:
        x = x + self.time.step(self.norm1(x), state)
        return x + self.channel.step(self.norm2(x), state)


class Recurrent(nn.Module):
    """A model of `layers`, `width`, `ffn_width` and `vocab`: fed whole sequences, or token by
    token with a state.
    """

    def __init__(self, model: Model, seed: int = 0):
        super().__init__()
        h = model.width
        self.model, self.tokens = model, nn.Embedding(model.padded_vocab, h)
        self.norm_in, self.norm = nn.LayerNorm(h), nn.LayerNorm(h)
        self.blocks = nn.ModuleList(Block(h, model.ffn_width) for _ in range(model.layers))
        self.head = nn.Linear(h, model.padded_vocab, bias=False)
        initialise(self, seed)
        spread(self)

    def forward(self, tokens: Tensor) -> Tensor:  # B S -> B S V
        x = self.norm_in(self.tokens(tokens))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def start(self, sequences: int = 1) -> list[State]:
        """A state for each layer."""
        return [fresh(sequences, self.model.width) for _ in self.blocks]

    @torch.no_grad()
    def step(self, tokens: Tensor, states: list[State]) -> Tensor:  # B -> B V
        x = self.norm_in(self.tokens(tokens))
        for block, state in zip(self.blocks, states, strict=True):
            x = block.step(x, state)  # type: ignore[operator]
        return self.head(self.norm(x))


@torch.no_grad()
def spread(model: Recurrent) -> None:
    """Channels that forget at once, and others that hardly do, from the first to the last one."""
    h = model.model.width
    way = torch.arange(h) / max(h - 1, 1)
    for block in model.blocks:
        assert isinstance(block, Block)
        time, channel = block.time, block.channel
        time.decay.copy_(8 * way - 5)
        time.bonus.copy_(0.5 * ((torch.arange(h) + 1) % 3 - 1) + 0.3)
        for mix in (time.mix, channel.mix):
            mix.copy_(way.expand_as(mix))
