"""A vision tower before a text model, whole or some of its layers: patches go through a ViT, a
projector makes them as wide as the text, and the words follow them.

L layers of the tower, then those of the text model, counted from 0 through both
Shapes: B sequences with an image each, T tokens of the tower, I patches, S patches and words.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mathlib.compute.vision import Tower
from mathlib.model import gpt, modern
from mathlib.specs import Model


class Patches(nn.Module):
    """Pixels to tokens: a product a patch, a class token first, a learned position each."""

    def __init__(self, tower: Tower):
        super().__init__()
        size, h = tower.patch, tower.width
        self.each = nn.Conv2d(tower.channels, h, size, stride=size, bias=tower.patch_bias)
        self.first = nn.Parameter(torch.empty(1, h)) if tower.class_token else None
        self.positions = nn.Parameter(torch.empty(tower.tokens, h))
        self.norm = nn.LayerNorm(h) if tower.first_norm else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:  # B C H W -> B T h
        x = self.each(images).flatten(2).transpose(1, 2)
        if self.first is not None:
            x = torch.cat([self.first.expand(len(x), 1, -1), x], 1)
        return self.norm(x + self.positions)


def seeing_block(tower: Tower) -> gpt.Block:
    """A layer of the tower: every patch meets every other, no mask."""
    block = gpt.Block(tower.body)
    block.attention.core = F.scaled_dot_product_attention
    return block


class Seeing(nn.Module):
    """These layers in a row; the first layer of the tower has the patches before it, its last one
    the projector behind it, the first of the text model the words, and the last one norm and head.

    Parameters have the names and the first numbers that they have in the whole model.
    """

    def __init__(
        self, tower: Tower, text: Model, layers: Sequence[int] | None = None, seed: int = 0
    ):
        super().__init__()
        L, device = tower.layers, torch.get_default_device()
        own = range(L + text.layers) if layers is None else layers
        with torch.device("meta"):
            source = modern.Modern(text.but(tied=False))
            self.patches = Patches(tower) if 0 in own else None
            sights = {str(i): seeing_block(tower) for i in own if i < L}
            norm = nn.LayerNorm(tower.width) if tower.final_norm else nn.Identity()
            to = nn.Linear(tower.width, text.width), nn.GELU(), nn.Linear(text.width, text.width)
        self.skip, self.sights = int(tower.class_token), nn.ModuleDict(sights)
        self.projector = nn.Sequential(norm, *to) if L - 1 in own else None
        self.words = source.tokens if L in own else None
        self.blocks = nn.ModuleDict({str(i): source.blocks[i - L] for i in own if i >= L})
        last = L + text.layers - 1 in own
        self.norm = source.norm if last else None
        self.head = source.head if last else None
        self.to_empty(device=device)
        gpt.initialise(self, seed)

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        """`x`: images, or what the layer before has made; of the B S `tokens` the places of patches
        do not count.
        """
        x = self.patches(x) if self.patches else x
        for sight in self.sights.values():
            x = sight(x)
        x = self.projector(x[:, self.skip :]) if self.projector else x  # B I width
        if self.words:
            x = torch.cat([x, self.words(tokens[:, x.shape[1] :])], 1)
        for block in self.blocks.values():
            x = block(x)
        return self.head(self.norm(x)) if self.head and self.norm else x
