"""The look of a part, said and never guessed: a role has one colour and one hatch everywhere.

A part's name is a role, or PART_ROLES says whose look it takes; any other name gets UNNAMED.
"""

from collections.abc import Iterable
from functools import cache

Look = tuple[str, str]  # (colour, hatch)

# Every hatch is a different drawing, for print and for eyes that mix colours up.
HATCHES = {
    "/": "M0 8L8 0M-2 2L2 -2M6 10L10 6",
    "\\": "M0 0L8 8M-2 6L2 10M6 -2L10 2",
    "x": "M0 0L8 8M0 8L8 0",
    "-": "M0 4H8",
    "|": "M4 0V8",
    ".": "M2 2h1.6v1.6h-1.6zM6 6h1.6v1.6h-1.6z",
}
ROLES: dict[str, Look] = {
    # What lives in memory.
    "weights": ("#3460a4", ""),
    "gradients": ("#ea8050", "/"),
    "optimizer": ("#009e90", "\\"),
    "activations": ("#efc252", "."),
    "temporary": ("#8a6482", "x"),
    "logits": ("#6d371e", "-"),
    "master weights": ("#16346b", "|"),
    "main gradients": ("#b4502a", "-"),
    "second moment": ("#8fd0c2", "x"),
    "scales": ("#a3b596", "|"),
    "cache": ("#86b049", "-"),
    # What takes time.
    "forward": ("#98abc0", ""),
    "backward": ("#475861", "/"),
    "recompute": ("#dccab6", "x"),
    "communication": ("#a76fd6", "\\"),
    "idle": ("#cfd4da", "."),
    # The parts of a model.
    "attention": ("#327fa6", "|"),
    "attention scores": ("#97d3ea", "x"),
    "attention values": ("#52a5c8", "."),
    "mlp": ("#dfa75f", "/"),
    "vocabulary": ("#8d4f6e", "."),
    "embedding": ("#b07a97", "-"),
    # Two numbers beside each other.
    "predicted": ("#7f8f9f", ""),
    "measured": ("#c2456b", "/"),
    "other": ("#a9a294", "|"),
}
PARTS = {  # role: names of parts that look like it
    "weights": (
        *("matrices in 4 bits", "other frozen weights", "weights to write with"),
        *("reference at rest", "reward at rest"),
        *("patches", "projector", "positions and class"),
        *("frozen weights", "weights, forward", "weights, backward", "padding"),
        *("live layer", "prefetched layers", "outside the layers", "live weights"),
        "too few parameters",
    ),
    "gradients": ("gradients, replicas", "new gradients", "gradients that wait", "adapters"),
    "optimizer": (
        *("momentum", "moments of the rest", "left factors", "right factors"),
        *("left roots", "right roots", "updates"),
        "policy at rest",
        "critic at rest",
        "model states",
        "optimizer states",
        "first moment",
        "update",
    ),
    "activations": (
        *("pixels", "norm inputs", "gathered weights", "the row that is sent"),
        *("layers", "input", "dropout mask", "output mask", "1. norm input", "2. norm input"),
        *("1. norm statistics", "2. norm statistics", "block", "final"),
        *("final norm input", "final norm statistics", "token numbers", "residual"),
        *("first layer", "other layers", "layer inputs", "attention output", "keys and values"),
        *(  # of layers with adapters
            name + how
            for name in ("attention input", "mlp input", "projection input", "second input")
            for how in (
                *("", ", dropped", ", masks", ", cast", ", times A"),
                *(", results before magnitudes", ", norms and scales"),
            )
            if name + how not in ("projection input", "second input")
        ),
        "too few tokens",
    ),
    "temporary": (
        *(
            "recomputed layer",
            "gathered layer",
            "gathered ends",
            "other gathered weights",
            "working tensors",
        ),
        "element-wise, beyond the count",
    ),
    "forward": ("arithmetic", "matmuls at the peak", "inference"),
    "backward": ("compute", "backward for inputs", "matmuls", "training"),
    "main gradients": ("backward for weights",),  # what that part of backward makes
    "logits": ("loss", "probabilities", "gradients of logits", "targets", "number of targets"),
    "cache": ("keys", "values", "used", "tokens before", "sums"),
    "attention": (
        *("attention projections", "query", "key", "value", "output", "latent", "query and key"),
        *("query down", "query up", "key-value down", "key-value up", "position"),
        *("queries", "projection input"),
    ),
    "attention scores": (
        *("attention core", "attention (QKᵀ and AV)", "slower attention"),
        "softmax",
        "softmax mask",
        "softmax after dropout",
        "log-sum-exp",
    ),
    "mlp": (
        *(
            "up",
            "down",
            "gate",
            "activated gate",
            "experts",
            "shared experts",
            "activation input",
            "second input",
        ),
        *("activation function", "MLP"),
    ),
    "vocabulary": ("head", "LM head", "loss on the last stage"),
    "embedding": ("positions", "gradient of the embedding"),
    "recompute": (
        "recomputation",
        "best matmul below the peak",
    ),
    "communication": (
        *("transfer", "bytes", "inside", "across", "gathering inputs again", "gradient buckets"),
        *("to other nodes", "rows in flight", "saving", "communication, if nothing hides it"),
        *("memory traffic", "messages", "messages between stages"),
        *("TP communication", "CP communication", "EP communication", "DP communication"),
        *("offloading", "in flight"),
        *("tensor", "expert", "pipeline", "data", "tied table"),
    ),
    "idle": (
        *("latency", "start", "steps", "launches", "between kernels", "idle in the pipeline"),
        *("bubble", "waiting after failures", "waiting for launches", "crowding", "empty"),
    ),
    "predicted": ("rule",),
    "other": (
        *("norms", "router", "context", "inside the node", "small tensors", "unexplained"),
        "entropy",
    ),
}
PART_ROLES = {name: role for role, names in PARTS.items() for name in names}
UNNAMED: Look = ("#999999", "")
INKED = 40  # percent, of ink in coloured words
# Looks of what is told apart and has no role: curves. 3:1 against white and against the dark page.
SPARE: list[Look] = [
    ("#3a7bc8", ""),
    ("#d9603f", "/"),
    ("#2a9270", "\\"),
    ("#9a63c4", "x"),
    ("#b07d10", "."),
    ("#2b90ae", "-"),
    ("#c4568e", "|"),
    ("#7b8590", ""),
]
# Ranks stand in an order, and so do their colours: from dark to light, in grey too.
RANKS = ("#3b2a6b", "#3f4f95", "#33719f", "#2a8f95", "#37ab7c", "#76c25b", "#b9d444", "#f3e14b")


def look(name: str) -> Look:
    """The look of a part by its exact name."""
    return ROLES.get(PART_ROLES.get(name, name), UNNAMED)


@cache
def rank_look(rank: int, ranks: int) -> Look:
    """The look of what a rank brought."""
    if ranks > len(RANKS):
        return RANKS[rank % len(RANKS)], ""
    return RANKS[round(rank * (len(RANKS) - 1) / max(1, ranks - 1))], ""


def shade(colour: str, step: int) -> str:
    """A colour's relatives: 1, 3, 5 are lighter and lighter, 2, 4, 6 darker and darker."""
    if not step:
        return colour
    goal, share = (255, 0.12 + 0.19 * step) if step % 2 else (0, 0.12 * step)
    return mixed(colour, goal, min(share, 0.85))


def mixed(colour: str, goal: int, share: float) -> str:
    """A colour with a share of white (goal 255) or of black (goal 0) in it."""
    return between(colour, "#" + 3 * f"{goal:02x}", share)


def between(first: str, second: str, share: float) -> str:
    """A colour with so much of another in it."""
    parts = ([int(one[i : i + 2], 16) for i in (1, 3, 5)] for one in (first, second))
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(*parts, strict=True))


def worded(colour: str) -> str:
    """A colour for words on the page: with so much ink in it that they can be read, dark on a
    light page and light on a dark one.
    """
    return f"color-mix(in srgb, {colour} {100 - INKED}%, currentColor)"


def piece_look(piece: int, pieces: int) -> Look:
    """The look of a piece of the model: however many there are, each has a colour of its own."""
    if pieces <= len(RANKS):
        return rank_look(piece, pieces)
    place = piece * (len(RANKS) - 1) / (pieces - 1)
    low = min(int(place), len(RANKS) - 2)
    return between(RANKS[low], RANKS[low + 1], place - low), ""


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name in a picture; who finds his taken gets the next shade of the colour and
    the next hatch.
    """
    found: dict[str, Look] = {}
    hatches = ["", *HATCHES]
    for name in dict.fromkeys(names):
        colour, hatch = look(name)
        step = 0
        while (shade(colour, step), hatch) in found.values() and step < 2 * len(hatches):
            step += 1
            hatch = hatches[(hatches.index(hatch) + 1) % len(hatches)]
        found[name] = (shade(colour, step), hatch)
    return found
