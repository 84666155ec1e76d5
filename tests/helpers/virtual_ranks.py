"""Collectives on lists of numbers between virtual ranks: rounds of messages, and what it takes to
execute them. Bytes and rounds are counted, not derived.
"""

from mathlib.traffic.mesh import Mesh

Span = tuple[int, int]
Rounds = list[
    list[tuple[int, int, Span, bool]]
]  # messages of a round: from, to, which elements, added or copied


def split(span: Span, n: int) -> list[Span]:
    """n consecutive pieces that differ by one element at most."""
    low, length = span[0], span[1] - span[0]
    edges = [low + length * i // n for i in range(n + 1)]
    return list(zip(edges, edges[1:], strict=False))


def ring_reduce_scatter(group: list[int], span: Span) -> Rounds:
    """Position i ends up with the sum of piece i + 1."""
    n, pieces = len(group), split(span, len(group))
    return [
        [(group[i], group[(i + 1) % n], pieces[(i - step) % n], True) for i in range(n)]
        for step in range(n - 1)
    ]


def ring_all_gather(group: list[int], span: Span) -> Rounds:
    n, pieces = len(group), split(span, len(group))
    return [
        [(group[i], group[(i + 1) % n], pieces[(i + 1 - step) % n], False) for i in range(n)]
        for step in range(n - 1)
    ]


def ring(group: list[int], span: Span) -> Rounds:
    return ring_reduce_scatter(group, span) + ring_all_gather(group, span)


def tree_reduce(group: list[int], span: Span) -> Rounds:
    n, rounds, near = len(group), [], 1
    while near < n:
        rounds.append(
            [(group[i + near], group[i], span, True) for i in range(0, n - near, 2 * near)]
        )
        near *= 2
    return rounds


def tree_broadcast(group: list[int], span: Span) -> Rounds:
    upwards = reversed(tree_reduce(group, span))
    return [
        [(parent, child, where, False) for child, parent, where, _ in messages]
        for messages in upwards
    ]


def naive(group: list[int], span: Span) -> Rounds:
    root, others = group[0], group[1:]
    return [[(r, root, span, True)] for r in others] + [[(root, r, span, False)] for r in others]


def halving_doubling(group: list[int], span: Span) -> Rounds:
    """Nearest first: half of the buffer to the neighbour, a quarter two ranks on, and back."""
    n = len(group)
    m = 1 << (n.bit_length() - 1)
    paired = 2 * (n - m)
    extra = [(group[i], group[i + 1]) for i in range(0, paired, 2)]
    core, mine = group[1:paired:2] + group[paired:], dict.fromkeys(range(m), span)
    distances = [1 << step for step in range(m.bit_length() - 1)]
    down, up = [], []
    for far in distances:
        messages = []
        for i in range(m):
            low, high = split(mine[i], 2)
            keep, give = (high, low) if i & far else (low, high)
            messages.append((core[i], core[i ^ far], give, True))
            mine[i] = keep
        down.append(messages)
    for far in reversed(distances):
        up.append([(core[i], core[i ^ far], mine[i], False) for i in range(m)])
        mine = {
            i: (min(mine[i][0], mine[i ^ far][0]), max(mine[i][1], mine[i ^ far][1]))
            for i in range(m)
        }
    before = [[(a, b, span, True) for a, b in extra]] if extra else []
    after = [[(b, a, span, False) for a, b in extra]] if extra else []
    return before + down + up + after


def together(schedules: list[Rounds]) -> Rounds:
    """Schedules of disjoint groups, side by side."""
    return [
        [message for messages in parallel for message in messages]
        for parallel in zip(*schedules, strict=True)
    ]


def by_levels(levels: list[int], span: Span) -> tuple[list[Rounds], list[Rounds]]:
    """Reduce-scatters of every level going out and all-gathers coming back."""
    mesh = Mesh({str(i): n for i, n in enumerate(levels)})
    owned = dict.fromkeys(range(mesh.world), span)
    out, back = [], []
    for level, n in enumerate(levels):
        groups = mesh.groups(str(level))
        out.append(together([ring_reduce_scatter(g, owned[g[0]]) for g in groups]))
        back.append(together([ring_all_gather(g, owned[g[0]]) for g in groups]))
        for group in groups:
            pieces = split(owned[group[0]], n)
            for i, rank in enumerate(group):
                owned[rank] = pieces[(i + 1) % n]
    return out, back


class Run:
    """Executes rounds on lists of numbers; one send and one receive a rank and round, as on a real
    link.
    """

    def __init__(self, ranks: int, length: int, rounds: Rounds):
        self.held = [[(rank + 1) * 1000 + i for i in range(length)] for rank in range(ranks)]
        self.wanted = [sum(column) for column in zip(*self.held, strict=True)]
        self.sent, self.serial, self.rounds = [0] * ranks, 0, len(rounds)
        for messages in rounds:
            assert len({m[0] for m in messages}) == len({m[1] for m in messages}) == len(messages)
            payloads = [self.held[frm][low:high] for frm, _, (low, high), _ in messages]
            for (frm, to, (low, high), add), payload in zip(messages, payloads, strict=True):
                self.sent[frm] += len(payload)
                old = self.held[to][low:high]
                self.held[to][low:high] = (
                    [a + b for a, b in zip(old, payload, strict=True)] if add else payload
                )
            self.serial += max(map(len, payloads))


ALL_REDUCE = {
    "ring": ring,
    "halving-doubling": halving_doubling,
    "naive": naive,
    "tree": lambda group, span: tree_reduce(group, span) + tree_broadcast(group, span),
}
