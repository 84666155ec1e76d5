"""A vision tower before a text model: a ViT whose patches are tokens, and the projector that makes
them as wide as the text's.

L layers · h width · s tokens: patches, and a class token
"""

from mathlib.checks import InputError, divides, flag, keep_whole, whole
from mathlib.compute import flops, params
from mathlib.parts import Part, Parts
from mathlib.records import dataclass
from mathlib.specs import Model


@dataclass(frozen=True)
class Tower:
    """Enough of a ViT to count (Dosovitskiy et al. 2021); as in CLIP and LLaVA if not said."""

    layers: int
    width: int
    heads: int
    ffn_width: int
    image: int  # pixels of a side
    patch: int  # pixels of a patch's side
    channels: int = 3
    class_token: bool = True
    patch_bias: bool = False
    first_norm: bool = True  # before the layers (CLIP)
    final_norm: bool = False  # behind them, of every token

    def __post_init__(self) -> None:
        names = ("layers", "width", "heads", "ffn_width", "image", "patch", "channels")
        keep_whole(self, 1, *names)
        divides("patch", self.patch, "image", self.image)
        divides("heads", self.heads, "width", self.width)
        for name in ("class_token", "patch_bias", "first_norm", "final_norm"):
            flag(name, getattr(self, name))

    @property
    def patches(self) -> int:
        return (self.image // self.patch) ** 2

    @property
    def tokens(self) -> int:
        return self.patches + self.class_token

    @property
    def body(self) -> Model:
        """Its layers, as a model that every other formula takes."""
        return Model(
            "tower",
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            ffn_width=self.ffn_width,
            vocab=1,
            context=self.tokens,
            final_norm=False,
            dropout=False,
            attention="flash",
        )


CLIP_L_336 = Tower(layers=24, width=1024, heads=16, ffn_width=4096, image=336, patch=14)


def tower_parameters(tower: Tower, *, text_width: int | None = None) -> Parts:
    """Parameters of a tower, and of a projector of two layers to a text's width if one is given
    (Liu et al. 2023, LLaVA-1.5).

    Chapter: compute
    """
    checked, h = _tower(tower), tower.width
    count = params.count(checked.body)
    parts: dict[str, Part] = {
        "patches": h * (checked.channels * checked.patch**2 + checked.patch_bias),
        "positions and class": h * (checked.tokens + checked.class_token),
        "attention": count.amount("attention"),
        "mlp": count.amount("mlp"),
        "norms": count.amount("norms") + 2 * h * (checked.first_norm + checked.final_norm),
    }
    if text_width is not None:
        to = whole("text_width", text_width)
        parts["projector"] = (h + 1) * to + (to + 1) * to
    return Parts("Vision tower", "parameter", parts)


def tower_flops(tower: Tower, *, text_width: int | None = None, images: int = 1) -> Parts:
    """FLOP of a forward pass: every patch meets every other, no mask, and each patch goes through
    the projector.

    Chapter: compute
    """
    checked, h, many = _tower(tower), tower.width, whole("images", images)
    found = flops.forward(checked.body, sequences=many)
    patches = many * checked.patches
    parts: dict[str, Part] = {
        "patches": flops.matmul(rows=patches, inner=checked.channels * checked.patch**2, columns=h),
        **{name: found[name] for name in found if name not in ("embedding", "vocabulary")},
    }
    if text_width is not None:
        to = whole("text_width", text_width)
        first = flops.matmul(rows=patches, inner=h, columns=to)
        parts["projector"] = first + flops.matmul(rows=patches, inner=to, columns=to)
    return Parts("forward of a vision tower", "FLOP", parts)


def _tower(tower: Tower) -> Tower:
    if not isinstance(tower, Tower):
        raise InputError(f"tower = {tower!r}: expected a Tower, such as vision.CLIP_L_336")
    return tower
