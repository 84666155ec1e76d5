"""Number types and byte recipes: what one parameter costs, and in which convention.

e exponent bits · m mantissa bits · bias mostly 2**(e-1) - 1 · block: values that share one scale
10, 12, 16, 18 and 20 bytes a parameter are all right, for some framework: a recipe names the copies
it keeps.
"""

from collections.abc import Iterable
from functools import cache
from math import prod

from mathlib import specs
from mathlib.checks import InputError, listed, one_of, whole
from mathlib.parts import Parts
from mathlib.records import dataclass, field, fields, replace

KEPT = (
    *("weights", "gradients", "main_gradients", "gradient_copies"),
    *("master_weights", "first_moment", "second_moment"),
)
STATES = ("first_moment", "second_moment")


@dataclass(frozen=True)
class NumberType:
    """The bits of a number: sign, exponent, mantissa; with a block, the scale that its values
    share.
    """

    name: str
    sign: int
    exponent: int
    mantissa: int
    stored: int = 0  # bits in memory; 0: the three together
    top: str = "special"  # what the largest exponent is for: special, number, all
    bias: int = 0  # what is taken off the exponent; 0: 2**(e-1) - 1
    subnormals: bool = True  # whether the smallest exponent is for zero and subnormals
    negative_zero: bool = True  # false: its pattern is the only NaN
    block: int = 0  # values that share one scale; 0: no scales
    scale: str = ""  # type of that scale
    source: str = field(default="", compare=False)

    @property
    def bits(self) -> int:
        """Bits a value occupies in memory."""
        return self.stored or self.sign + self.exponent + self.mantissa

    @property
    def bytes(self) -> float:
        """Bytes a value occupies, and its share of a scale; half a byte for the 4-bit types."""
        own = self.bits / 8 if self.bits % 8 else self.bits // 8
        return own + bytes_of(self.scale) / self.block if self.block else own

    @property
    def largest(self) -> float:
        """Largest finite value: 2**(top exponent) * (2 - 2**-m), one mantissa step less where that
        pattern is NaN; of a block, in units of its scale.
        """
        e, m = self._floating("largest"), self.mantissa
        bias, last = self._bias, 2**e - 1
        if self.top == "special":
            return 2.0 ** (last - 1 - bias) * (2 - 2.0**-m)
        return 2.0 ** (last - bias) * (2 - 2.0**-m * (2 if self.top == "number" else 1))

    @property
    def smallest_normal(self) -> float:
        """Smallest value with full precision: 2**(1 - bias), without subnormals 2**-bias."""
        self._floating("smallest_normal")
        return 2.0 ** (self.subnormals - self._bias)

    @property
    def epsilon(self) -> float:
        """Step above 1: 2**-m."""
        self._floating("epsilon")
        return 2.0**-self.mantissa

    @property
    def _bias(self) -> int:
        return self.bias or 2 ** (self.exponent - 1) - 1

    def _floating(self, asked: str) -> int:
        if not self.exponent:
            raise InputError(
                f"dtype = {self.name!r}: has no exponent, so no {asked}; accepted: a floating type"
            )
        return self.exponent


@dataclass(frozen=True)
class Recipe:
    """The copies of a parameter that a training run keeps, each with its number type; "" is not
    kept.
    """

    name: str
    title: str
    weights: str = ""
    gradients: str = ""
    main_gradients: str = ""  # a sum that backward adds to
    gradient_copies: str = ""  # what the optimizer makes of gradients when it updates
    master_weights: str = ""
    first_moment: str = ""
    second_moment: str = ""  # also "factored"
    block: int = 0  # values that share one fp32 scale in an int8 moment; 0: no scales
    elsewhere: str = ""  # second moment of all but matrices of layers, where those keep none
    used_by: str = field(default="", compare=False)
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for part in KEPT:
            extra = ("", "factored") if part == "second_moment" else ("",)
            one_of(part, getattr(self, part), (*specs.table("types"), *extra))
        one_of("elsewhere", self.elsewhere, ("", *specs.table("types")))
        whole("block", self.block, least=0)


def number_type(dtype: str) -> NumberType:
    """A number type by its name.

    Chapter: precision
    """
    return _type(one_of("dtype", dtype, specs.table("types")))


@cache
def _type(name: str) -> NumberType:
    return NumberType(name=name, **specs.table("types")[name])


def bytes_of(dtype: str) -> float:
    """Bytes one value of a number type occupies.

    Chapter: precision
    """
    return number_type(dtype).bytes


def _found(recipe: str | Recipe) -> Recipe:
    """A recipe by its name; a Recipe is returned as it is, so that formulas take either."""
    if isinstance(recipe, Recipe):
        return recipe
    return _recipe(one_of("recipe", recipe, specs.table("recipes")))


@cache
def _recipe(name: str) -> Recipe:
    return Recipe(name=name, **specs.table("recipes")[name])


def recipe(recipe: str | Recipe, **changes: str | int) -> Recipe:
    """A recipe by its name, with some copies changed: recipe("mixed-adam", weights="bf16",
    gradients="bf16").

    Chapter: memory
    """
    found = _found(recipe)
    for change in changes:
        one_of("change", change, [f.name for f in fields(Recipe)])
    return replace(found, **changes) if changes else found  # type: ignore[arg-type]


def names() -> list[str]:
    """Names of all recipes.

    Chapter: memory
    """
    return list(specs.table("recipes"))


def bytes_per_parameter(
    recipe: str | Recipe,
    *,
    shapes: Iterable[tuple[int, ...]] = (),
) -> Parts:
    """Bytes one parameter costs, by copy: sum over the recipe's copies of the width of
    their type.

    An int8 moment adds 4 / block for its fp32 scales (Dettmers et al. 2022); a
    factored one needs the `shapes` of the weights, because r + c values stand for r * c
    (Shazeer and Stern 2018).

    Chapter: memory
    """
    r = _found(recipe)
    parts: dict[str, float] = {}
    for part in KEPT:
        dtype = getattr(r, part)
        if dtype == "factored":
            parts[part] = factored_bytes(shapes)
        elif dtype:
            parts[part] = bytes_of(dtype)
    quantised = sum(getattr(r, part) == "int8" for part in STATES)
    if quantised and r.block:
        parts["scales"] = quantised * bytes_of("fp32") / r.block
    return Parts(
        f"{r.title}: bytes per parameter",
        "byte",
        {k.replace("_", " "): v for k, v in parts.items()},
    )


def factored_bytes(shapes: Iterable[tuple[int, ...]]) -> float:
    """Bytes per parameter of a factored variance: 4 (r + c) / (r c) over all matrices; vectors keep
    all of theirs.

    Chapter: precision
    """
    shapes = [
        tuple(whole("shapes", n) for n in listed("shapes", shape))
        for shape in listed("shapes", shapes)
    ]
    if not shapes:
        raise InputError(
            "shapes = (): expected [(rows, columns), ...], on which a factored moment depends"
        )
    kept = sum(prod(s[:-1]) + prod(s[:-2]) * s[-1] if len(s) > 1 else prod(s) for s in shapes)
    return bytes_of("fp32") * kept / sum(map(prod, shapes))


def scale_bits(
    *, block: int, scale_bits: int = 32, second_block: int = 0, second_bits: int = 32
) -> float:
    """Bits a parameter pays for the scales of block-wise quantisation: c1 / B1 + c2 / (B1 B2).

    QLoRA (arXiv:2305.14314, section 3): 32/64 = 0.5 bits; double quantisation 8/64 + 32/(64*256) =
    0.127 bits.

    Chapter: precision
    """
    b1, c1, b2 = (
        whole("block", block),
        whole("scale_bits", scale_bits),
        whole("second_block", second_block, least=0),
    )
    return c1 / b1 + (whole("second_bits", second_bits) / (b1 * b2) if b2 else 0)
