"""Local steps of replicas that one process moves by hand."""

import sharding

from mathlib.model import oracle

STEPS = 9


def by_hand(
    name, sizes, ranks, steps, rate=1.0, momentum=0.0, fragments=1, late=0, own=0.0, frozen=False
):
    """Replicas in one process; the outer momentum is written out. A fragment has so many of the
    parameters, `frozen` ones among them or not.
    """
    models = [sharding.build("odd", 0) for _ in range(ranks)]
    made = [oracle.OPTIMIZERS[name](model.parameters()) for model in models]
    mine = [[p for p in model.parameters() if frozen or p.requires_grad] for model in models]
    met = [p.detach().clone() for p in mine[0]]
    speed, flying, history = [0 * p for p in met], {}, [[] for _ in models]
    for number in range(1, STEPS + 1):
        x, y = sharding.odd_batch(number - 1)
        parts = zip(x.chunk(ranks), y.chunk(ranks), strict=True)
        for model, optimizer, (a, b) in zip(models, made, parts, strict=True):
            sharding.mse(model, a, b).backward()
            optimizer.step()
            optimizer.zero_grad()
        for f in range(fragments):
            since = number - (f + 1) * steps // fragments
            for i in range(sum(sizes[:f]), sum(sizes[: f + 1])):
                if since >= 0 and since % steps == 0:
                    flying[i] = met[i] - sum(one[i].detach() for one in mine) / ranks
                if since >= late and (since - late) % steps == 0:
                    way = flying.pop(i)
                    speed[i] = momentum * speed[i] + way
                    met[i] = met[i] - rate * (way + momentum * speed[i])
                    for replica in mine:
                        replica[i].data = (1 - own) * met[i] + own * replica[i].data
        for kept, model in zip(history, models, strict=True):
            kept.append(oracle.flat_weights(model).clone())
    return history
