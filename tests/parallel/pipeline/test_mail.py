"""Messages: each has its name, few wait at a time, and a time travels with them unharmed."""

from types import SimpleNamespace

import pipelines
import pytest
import torch
import torch.distributed as dist
from patience import PATIENCE

from mathlib import launch
from mathlib.meters.trace import Trace
from mathlib.parallel.pipeline.mail import Mail
from mathlib.schedule import orders
from mathlib.schedule.actions import Action, Schedule


@pytest.mark.parametrize("order", orders.ORDERS)
def test_no_two_messages_of_a_run_have_the_same_name(order):
    schedule = orders.make(order, stages=4, micro_batches=8)
    tags = []
    for s in range(4):
        mail = Mail(schedule, s, range(4), trace=Trace(on=False))
        tags += [mail._tag(a) for a in schedule.actions[s] if schedule.receives_from(a) is not None]
    assert len(set(tags)) == len(tags)


@pytest.mark.parametrize("order", orders.ORDERS)
def test_who_takes_a_message_and_who_made_it_agree(order):
    schedule = orders.make(order, stages=4, micro_batches=8)
    for s, actions in enumerate(schedule.actions):
        mail = Mail(schedule, s, range(4), trace=Trace(on=False))
        for action in actions:
            if schedule.sends_to(action) is not None:
                taker = mail._taker(action)
                assert mail._maker(taker) == action
                assert taker in schedule.actions[schedule.sends_to(action)]
                assert schedule.receives_from(taker) == s


def waiting(order, m, posted):
    """The most sends and receives that are open at once during a run."""
    schedule = orders.make(order, stages=2, micro_batches=m)
    pipe = pipelines.make(pipelines.shape(), schedule, "SGD", posted=posted)
    sends, receives = [], []
    whole = pipe.mail.send

    def send(*given):
        whole(*given)
        sends.append(sum(map(len, pipe.mail.sent.values())))
        receives.append(len(pipe.mail.receiving))

    pipe.mail.send = send
    pipe.run(*pipelines.batch(0, m))
    return max(sends), max(receives), sum(map(len, pipe.mail.sent.values()))


def all_waiting(cases):
    return [waiting(*case) for case in cases]


def test_what_waits_does_not_grow_with_the_micro_batches():
    cases = [("1f1b", 6, 1), ("1f1b", 24, 1), ("1f1b", 24, 3), ("gpipe", 24, 1)]
    for few, many, three, filled in launch.run(all_waiting, 2, cases, timeout=PATIENCE):
        assert few == many and many[0] <= 3, "a stage forgets a send once it has heard of it"
        assert many[1] == 1 and three[1] == 3
        assert filled[0] <= 24
        assert [found[2] for found in (few, many, three, filled)] == [0] * 4


def there(dtype):
    schedule = Schedule("there", 1, [(0, 1)], [[Action("F", 0, 0)], [Action("F", 0, 1)]])
    rank = dist.get_rank()
    clock = SimpleNamespace(leave=lambda to: 2**40 + 0.125)
    mail = Mail(schedule, rank, [0, 1], clock=clock, trace=Trace(on=False))
    mail.open(lambda i, c: (2, 3), torch.zeros(1, dtype=dtype))
    if rank:
        given, time = mail.take(Action("F", 0, 1))
        return given.tolist(), time
    mail.send(Action("F", 0, 0), torch.arange(6, dtype=dtype).view(2, 3))
    mail.close()


def each_type(dtypes):
    return [there(dtype) for dtype in dtypes]


def test_a_time_travels_with_numbers_of_any_type():
    dtypes = [torch.float64, torch.float32, torch.bfloat16]
    _, found = launch.run(each_type, 2, dtypes, timeout=PATIENCE)
    assert found == [([[0, 1, 2], [3, 4, 5]], 2**40 + 0.125)] * 3
