"""The layout prover of the together chapter: what one exchange left out does to which ranks."""

import re
from collections import Counter
from functools import partial
from html import escape

from mathlib.checks import InputError
from mathlib.layout import Layout
from mathlib.prover import faults
from mathlib.prover.case import case
from mathlib.prover.prove import Verdict, prove
from mathlib.prover.shards import KINDS
from mathlib.show.experiments import Choice, Toggle, doubling, experiment
from mathlib.show.figures import both, figure_html
from mathlib.show.kit import Canvas

MOST = 8  # ranks: fewer than 8 prove as much, and a page answers at once
# Of all faults those that can be tried in every layout, by axis as `mathlib prove --faults` says.
OFFERED = {
    "tensor": ("mlp-sum", "mlp-input-sum", "query-key-norm", "norm-gradient", "last-words"),
    "data": ("replica-sum", "mean-of-means", "averaged-again", "same-batch", "replica-group-order"),
    "zero": ("shard-boundary", "stale-weights", "last-shard-only", "shard-replica-sum"),
    "context": ("not-sent-home", "context-sum", "positions-from-zero", "shifted-after-split"),
    "pipeline": ("tied-sum", "tied-averaged", "gradients-reversed", "cut-off"),
    "experts": ("expert-scale", "experts-mixed", "not-put-back", "router-gradient"),
}
NAMES = {"zero": "ZeRO"}
COLUMNS = dict(zip(KINDS, ("forward", "backward", "gradients", "momentum", "weights"), strict=True))


def _offered() -> tuple[tuple[str, str], ...]:
    """Nothing, then each fault behind its axis."""
    found = [("nothing", "nothing")]
    for axis, names in OFFERED.items():
        of = NAMES.get(axis, axis)
        found += [(f"{of}: {name.replace('-', ' ')}", name) for name in names]
    return tuple(found)


@experiment(
    "layout-prover",
    "A layout on trial",
    Choice("fault", "Done wrong", _offered(), "query-key-norm"),
    doubling("data", "Data-parallel replicas", 1, 4, 2),
    doubling("tensor", "Tensor-parallel degree", 1, 4, 2),
    doubling("pipeline", "Pipeline stages", 1, 4, 2),
    doubling("context", "Context-parallel degree", 1, 4, 1),
    doubling("expert", "Expert-parallel degree", 1, 4, 1),
    Choice("zero", "ZeRO stage", tuple((str(n), n) for n in range(4)), 1),
    Toggle("sequence", "Sequence parallelism", False),
    code=(prove,),
    main=4,
)
def layout_prover(
    fault: str,
    data: int,
    tensor: int,
    pipeline: int,
    context: int,
    expert: int,
    zero: int,
    sequence: bool,
) -> str:
    layout = Layout(
        data=data,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        zero=zero,
        sequence_parallel=sequence,
        micro_batches=max(2, pipeline),
    )
    if layout.world > MOST:
        raise InputError(f"{layout.world} ranks: expected at most {MOST}; fewer prove as much")
    tried = case(layout)
    if fault == "nothing":
        verdict = prove(tried)
        return _says(verdict, "") + _shown(verdict)
    wrong = faults.find(fault)
    verdict = prove(tried, wrong.program)
    return _says(verdict, wrong.says) + _shown(verdict) + _thread(wrong)


def _says(verdict: Verdict, wrong: str) -> str:
    """The verdict in a sentence, after what was done wrong."""
    done = f"Done wrong: {escape(wrong)} " if wrong else ""
    if verdict.stuck:
        said = f"<b>The ranks hang.</b> {escape(verdict.stuck)}"
    elif verdict.first:
        right = (
            " The loss and all activations are right." if verdict.first.kind != "forward" else ""
        )
        said = f"<b>Not equal to one process.</b> First: {escape(str(verdict.first))}.{right}"
    else:
        less = " This layout has nothing that it could spoil." if wrong else ""
        said = f"<b>Equal to one process</b> in all {verdict.numbers:,} numbers.{less}"
    return f'<p class="mlx-say">{done}{said}</p>'


def _thread(wrong: faults.Fault) -> str:
    """Where it happened, as a link."""
    if not (found := re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", wrong.source)):
        return ""
    address = f"https://github.com/{found[1]}/issues/{found[2]}"
    return f'<p class="mlx-say">It happened in <a href="{address}">{escape(wrong.source)}</a>.</p>'


def _shown(verdict: Verdict) -> str:
    """Ranks with what differs on them; nothing where they hang, for nobody came to an end."""
    return "" if verdict.stuck else figure_html(both(partial(_drawn, verdict=verdict)))


def _drawn(width: float, verdict: Verdict) -> str:
    """A row for each rank, a column for each kind of tensor."""
    page = Canvas(width, "Tensors that differ")
    counts = Counter((d.rank, d.kind) for d in verdict.differences)
    ranks, left, high = range(verdict.ranks), page.wide("rank 00", page.small) + 8, 20
    cell, top = min(96.0, (width - left) / len(KINDS)), page.bottom + 24
    for column, words in enumerate(COLUMNS.values()):
        page.text(left + (column + 0.5) * cell, top - 7, words, anchor="middle", size=page.small)
    for r in ranks:
        page.text(left - 8, top + (r + 0.7) * high, f"rank {r}", anchor="end", size=page.small)
    has = [[counts[r, kind] for kind in KINDS] for r in ranks]
    cells = [["measured" if n else None for n in row] for row in has]
    texts = [[str(n) if n else "" for n in row] for row in has]
    page.at(page.grid(cells, cell=cell, high=high, texts=texts), left, top)
    told = [f"rank {r}: {sum(row)}" for r, row in zip(ranks, has, strict=True)]
    return page.done(f"Tensors that differ, of {verdict.tensors}. " + ", ".join(told))
