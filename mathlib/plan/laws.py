"""The formula of every part of a step, as text; `step.letters` has what its letters stand for.

The letters are those of the notation page; an index tells two of a kind apart.
"""

ON_HOST = "optimizer on the host"  # instead of "optimizer", where states wait there
LAWS = {  # part: its formula, and what that says
    "matmuls": (
        "T = 3 * m * l * (F / X + Q / W)",
        "A layer's matmuls, once forward and twice backward, for m micro-batches in l layers of a "
        "stage: F FLOP at the X that the device reaches, Q bytes at W.",
    ),
    "attention": (
        "T = c * m * l * A / Y",
        "A FLOP of scores and values at the Y that the kernel reaches; forward and backward are c "
        "forwards.",
    ),
    "memory traffic": (
        "T = 3 * m * l * Q / W",
        "Norms, sums and activation functions: Q bytes forward at W.",
    ),
    "waiting for launches": (
        "T = m * l * (sqrt(t_b ** 2 + t_k ** 2) - t_b)",
        "A layer's kernels take t_k to launch; t_b is what they compute.",
    ),
    "recomputation": (
        "T = m * l * (c_p * t_p + c_a * t_a + c_m * t_m)",
        "The shares c of a layer's forward that are recomputed: matmuls, attention, the rest.",
    ),
    "TP communication": (
        "T = m * l * max(n * t_r * (1 - o), n * t_r - t_p)",
        "n times a layer, ranks of a tensor group add up their parts of the stream, each time in "
        "t_r; a share o hides behind matmuls, or as much as those take, t_p; between nodes nothing "
        "does.",
    ),
    "CP communication": (
        "T = m * l * max(t_c * (1 - o), t_c - t_b)",
        "Keys and values go round in t_c; a share o hides, or as much as attention takes, t_b.",
    ),
    "EP communication": (
        "T = m * l * n * t_a * (1 - o)",
        "Tokens go to their experts and back, n times, each time in t_a; a share o hides.",
    ),
    "loss on the last stage": (
        "T = m * (n * t + t_h - l * t)",
        "Head and loss take t_h; the last stage, with n layers of t each, is so much slower than "
        "one with l.",
    ),
    "messages between stages": (
        "T = m * v * t_s",
        "A micro-batch waits t_s for its activations and gradients, once for each of v chunks.",
    ),
    "bubble": (
        "T = (p - 1) / v * (L / p * t + t_h / p + t_s)",
        "A micro-batch passes p stages, of L layers in all, before every stage is busy.",
    ),
    "offloading": (
        "T = (max(0, K / W - t_b / 3) + max(0, K / W - 2 * t_b / 3)) "
        "* (m * l + (p - 1) / v * L / p)",
        "A layer's K bytes go to the host at W while it computes, which takes t_b, a third of it "
        "forward; and back again.",
    ),
    "DP communication": (
        "T = max(t_x * (1 - o), t_x - t_b)",
        "Gradients and weights take t_x in all; a share o hides, or as much as is computed then, "
        "t_b.",
    ),
    "optimizer": (
        "T = 30 * P / (S * W)",
        "Adam reads and writes 30 bytes for each parameter: of the P of a device it keeps one in "
        "S, at W.",
    ),
    ON_HOST: (
        "T = P / S * (e / W + 30 / W_h)",
        "Of the P parameters of a device one in S is updated by the host: e bytes of gradient and "
        "weight on the way at W, 30 bytes for Adam at W_h, the host's memory.",
    ),
    "crowding": (
        "T = c * log2(n) * t_0",
        "All else, t_0, takes a share c longer for each doubling of the n nodes.",
    ),
}
