"""Whether experts wait for their tokens.

e bytes of an element · f ffn_width of an expert
X FLOP/s that a device achieves · W bandwidth of its link
"""

from mathlib.checks import positive, whole


def ratio(
    *,
    ffn_width: int,
    expert: int,
    achieved: float,
    bandwidth: float,
    bytes_per_element: float = 2,
) -> float:
    """Seconds of sending over seconds of computing in a layer of gated experts, loads even and
    nothing hidden: 2 e X / (9 f W) times the share of visits that leave
    the rank, for any width, tokens and visits.

    Chapter: experts (eq-expert-ratio)
    """
    f, away = whole("ffn_width", ffn_width), 1 - 1 / whole("expert", expert)
    X, W = positive("achieved", achieved), positive("bandwidth", bandwidth)
    return 2 * positive("bytes_per_element", bytes_per_element) * X * away / (9 * f * W)
