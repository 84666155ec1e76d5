"""The event model beside the laboratory: collectives and pipelines of four ranks on two nodes, all
links alike, one slow, one slow rank. "Ours" is the model's time, "theirs" the run's; their ratio is
how many times longer the run takes than the model says.
"""

from collections.abc import Iterator

import rounds

from mathlib import launch
from mathlib.launch import lab
from mathlib.trials.unequal_runs import CLUSTERS, WAYS, modelled, stepping


def race(name: str, count: int) -> tuple[str, list[float]]:
    step = stepping(name)
    return lab.here().place.way, rounds.on_ranks({name: step}, count, warm_up=1)[name]


def rows(quick: bool) -> Iterator[dict]:
    for name in WAYS:
        for what, cluster in CLUSTERS.items():
            for network in (None, "paced"):
                count, how = 2 if quick else 5, {"cluster": cluster, "network": network}
                way, took = launch.run(race, None, name, count, **how, timeout=900)[0]
                model = modelled(name, cluster, way == "namespaces")
                times = {"model": [model] * count, f"run, {way}": took}
                label = f"{name}, {what}"
                yield rounds.row(label, times, "model", f"run, {way}", least=round(min(took), 4))
