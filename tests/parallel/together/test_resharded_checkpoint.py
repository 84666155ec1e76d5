"""A run saved in one layout goes on in another as if nothing had happened."""

from unittest import mock

import pytest
import together_cases as cases
from patience import PATIENCE
from together_cases import CLIP, CONTEXT, DATA, EXPERT, PIPELINE, SEQUENCE, TENSOR

from mathlib import launch
from mathlib.checks import InputError
from mathlib.model import oracle
from mathlib.parallel import checkpoint as of_zero
from mathlib.parallel.together import resharded_checkpoint

OTHERWISE = {  # model: layouts to save in, and to go on in
    "gpt": (PIPELINE | DATA | {"zero": 1}, CONTEXT | TENSOR | SEQUENCE),
    "modern": (DATA | TENSOR, {"data": 4, "zero": 3}),
    "shared": ({"data": 4, "zero": 2} | EXPERT, DATA | TENSOR | SEQUENCE | EXPERT),
}


def go_on(folder, wanted):
    """How far each is after a step in one layout, and a second one in another; and in the same
    without the optimizer's states.
    """
    far = {}
    for name, (before, after) in OTHERWISE.items():
        way = cases.make((name, before, "Adam", CLIP))
        first = cases.trained_apart(way, wanted[name][:1])
        path = resharded_checkpoint.save(way, folder / name, 1, progress="here")
        step = way.my_sequences(*cases.tokens(1))
        way.run(*step)
        with pytest.raises(InputError, match="gradients have come"):
            resharded_checkpoint.save(way, folder / name, 2)
        way = cases.make((name, after, "Adam", CLIP | {"seed": 5}))
        assert resharded_checkpoint.resume(way, path) == (1, "here")
        second = second_step(way, wanted[name])
        way = cases.make((name, after, "Adam", CLIP))
        with mock.patch.object(resharded_checkpoint, "_make_states", lambda *_: None):
            resharded_checkpoint.resume(way, path)
        far[name] = first, second, second_step(way, wanted[name])
    return far


def second_step(way, wanted):
    way.step(*way.my_sequences(*cases.tokens(1)))
    return cases.difference(way, wanted[1][1])[0].item()


def test_a_run_goes_on_in_another_layout(tmp_path):
    wanted = {name: cases.by_one(name, "Adam", **CLIP) for name in OTHERWISE}
    for far in launch.run(go_on, 4, tmp_path, wanted, timeout=PATIENCE):
        for name, (first, second, without) in far.items():
            assert first < oracle.EQUAL and second < oracle.EQUAL, name
            assert without > 1e-6, name
    for name in OTHERWISE:
        weights = of_zero.weights(of_zero.latest(tmp_path / name))
        whole = cases.whole(name)
        whole.load_state_dict(weights)
        for n, p in whole.named_parameters():
            assert (p - wanted[name][0][1][n]).abs().max() < oracle.EQUAL

    def fewer(name):
        """On two ranks what four have saved, and what does not fit."""
        way = cases.make((name, PIPELINE, "Adam", CLIP))
        resharded_checkpoint.resume(way, of_zero.latest(tmp_path / name))
        far = second_step(way, wanted[name])
        for other, optimizer, words in (
            ("untied", "Adam", "only in the model"),
            ("gpt", "SGD", "states of Adam, expected those of SGD"),
        ):
            with pytest.raises(InputError, match=words):
                resharded_checkpoint.resume(
                    cases.make((other, PIPELINE, optimizer, {})), of_zero.latest(tmp_path / name)
                )
        return far

    assert max(launch.run(fewer, 2, "gpt")) < oracle.EQUAL
