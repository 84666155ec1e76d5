"""What a vision tower keeps: laws of size; a run of transformers is measured in test_vision."""

import pytest

from mathlib.checks import InputError
from mathlib.compute.vision import CLIP_L_336
from mathlib.memory import tower_activations


def test_images_add_up_and_a_projector_is_its_input_and_both_sides_of_its_gelu():
    one, four = (tower_activations.kept(CLIP_L_336, images=n).total for n in (1, 4))
    assert four == 4 * one
    more = tower_activations.kept(CLIP_L_336, text_width=4096).total - one
    assert more == 2 * 576 * (1024 + 2 * 4096)
    assert 0.45e9 < one < 0.46e9, "bytes of one image at 336 pixels, in half precision"


def test_what_is_no_tower_is_refused():
    with pytest.raises(InputError, match="tower"):
        tower_activations.kept("clip")
