"""What a vision tower and its projector keep for their backward pass.

e bytes of a number · h width · s tokens: patches, and a class token
"""

from mathlib.checks import instance, positive, whole
from mathlib.compute.vision import Tower
from mathlib.memory import activations
from mathlib.memory.saved_tensors import FP32, INDEX
from mathlib.parts import Part, Parts


def kept(
    tower: Tower,
    *,
    text_width: int | None = None,
    images: int = 1,
    bytes_per_element: float = 2,
    small_tensors: bool = False,
) -> Parts:
    """Bytes that a trained tower keeps of some images: their pixels, which the patches' weights
    need, the layers, and of the projector its input and both sides of its GELU.

    Chapter: memory
    """
    checked, many = instance("tower", tower, Tower), whole("images", images)
    e = positive("bytes_per_element", bytes_per_element)
    each = activations.layer(
        checked.body, micro_batch=many, bytes_per_element=e, small_tensors=small_tensors
    )
    rows = many * checked.tokens
    parts: dict[str, Part] = {"pixels": e * many * checked.channels * checked.image**2}
    norms = checked.first_norm + checked.final_norm
    if norms:
        parts["norm inputs"] = e * norms * rows * checked.width
    parts["layers"] = each.scaled(checked.layers, f"{checked.layers} layers")
    if text_width is not None:
        to = whole("text_width", text_width)
        parts["projector"] = e * many * checked.patches * (checked.width + 2 * to)
    if small_tensors:
        parts["small tensors"] = 2 * FP32 * norms * rows + INDEX * checked.tokens
    return Parts(f"Activations of {many} images", "byte", parts)
