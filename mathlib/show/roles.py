"""The look of a part, said and never guessed: a role has one colour and one hatch everywhere.

A part's name is a role, or PART_ROLES says whose look it takes; any other name gets UNNAMED.
"""

from collections.abc import Iterable

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
    "weights": ("#4477aa", ""),
    "gradients": ("#ee6677", "/"),
    "optimizer": ("#228833", "\\"),
    "master weights": ("#223f66", "|"),
    "main gradients": ("#aa3344", "-"),
    "first moment": ("#228833", "\\"),
    "second moment": ("#77b36a", "x"),
    "scales": ("#888888", "|"),
    "activations": ("#ccbb44", "."),
    "temporary": ("#aa3377", "x"),
    "logits": ("#997700", "x"),
    "cache": ("#66ccee", "-"),
    "attention": ("#66ccee", "|"),
    "attention scores": ("#66ccee", "x"),
    "attention values": ("#66ccee", "."),
    "attention core": ("#66ccee", "x"),
    "mlp": ("#bb7744", "/"),
    "rule": ("#888888", "-"),
    "vocabulary": ("#aa3377", "."),
    "embedding": ("#997700", "-"),
    "forward": ("#4477aa", ""),
    "backward": ("#228833", "/"),
    "recompute": ("#ccbb44", "x"),
    "update": ("#997700", "|"),
    "compute": ("#4477aa", ""),
    "communication": ("#aa3377", "\\"),
    "idle": ("#bbbbbb", "."),
    "predicted": ("#4477aa", ""),
    "measured": ("#ee6677", "/"),
    "other": ("#888888", "|"),
}
PARTS = {  # role: names of parts that look like it
    "weights": ("frozen weights", "weights, forward", "weights, backward"),
    "gradients": ("gradients, replicas", "new gradients", "adapters"),
    "optimizer": ("optimizer states",),
    "activations": (
        *("layers", "input", "dropout mask", "output mask", "1. norm input", "2. norm input"),
        *("1. norm statistics", "2. norm statistics", "block", "final"),
        *("final norm input", "final norm statistics", "token numbers"),
    ),
    "temporary": ("gathered layer", "working tensors"),
    "logits": ("probabilities", "gradients of logits", "targets", "number of targets"),
    "cache": ("keys", "values"),
    "attention": (
        *("attention projections", "query", "key", "value", "output", "latent", "query and key"),
        *("query down", "query up", "key-value down", "key-value up", "position"),
        *("queries", "projection input"),
    ),
    "attention scores": ("softmax", "softmax mask", "softmax after dropout", "log-sum-exp"),
    "mlp": ("up", "down", "gate", "experts", "shared experts", "activation input", "second input"),
    "vocabulary": ("head",),
    "embedding": ("positions",),
    "recompute": ("recomputation",),
    "communication": ("transfer", "inside", "across", "gathering inputs again", "gradient buckets"),
    "idle": ("latency", "idle in the pipeline", "waiting after failures"),
    "other": ("norms", "router", "context"),
}
PART_ROLES = {name: role for role, names in PARTS.items() for name in names}
UNNAMED: Look = ("#999999", "")


def look(name: str) -> Look:
    """The look of a part by its exact name."""
    return ROLES.get(PART_ROLES.get(name, name), UNNAMED)


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name in a picture; who finds his taken keeps the colour and gets the next
    hatch.
    """
    found: dict[str, Look] = {}
    for name in dict.fromkeys(names):
        colour, hatch = look(name)
        free = [h for h in (hatch, "", *HATCHES) if (colour, h) not in found.values()]
        found[name] = (colour, free[0] if free else hatch)
    return found
