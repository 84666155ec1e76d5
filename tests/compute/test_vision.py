"""A vision tower and its projector: by formula, and as transformers' CLIP and LLaVA run it."""

import pytest
import torch
from transformers import CLIPVisionConfig, CLIPVisionModel, LlavaConfig
from transformers.models.llava.modeling_llava import LlavaMultiModalProjector

from mathlib.checks import InputError
from mathlib.compute import vision
from mathlib.memory import tower_activations
from mathlib.meters import flop, saved

SMALL = vision.Tower(layers=2, width=48, heads=3, ffn_width=160, image=32, patch=8)
TEXT, IMAGES = 80, 3


def built(tower):
    config = CLIPVisionConfig(
        hidden_size=tower.width,
        intermediate_size=tower.ffn_width,
        num_hidden_layers=tower.layers,
        num_attention_heads=tower.heads,
        image_size=tower.image,
        patch_size=tower.patch,
        hidden_act="gelu",
        attn_implementation="sdpa",
    )
    text = {"model_type": "llama", "hidden_size": TEXT, "num_attention_heads": 8}
    model = CLIPVisionModel(config)
    del model.post_layernorm  # of the class token, which LLaVA leaves out
    projector = LlavaMultiModalProjector(
        LlavaConfig(vision_config=config.to_dict(), text_config=text)
    )
    return torch.nn.ModuleDict({"tower": model, "projector": projector})


def passed(net, pixels):
    tower = net["tower"]
    x = tower.pre_layrnorm(tower.embeddings(pixels))
    for layer in tower.encoder.layers:
        x = layer(x, None)
    return net["projector"](x[:, 1:])


@pytest.mark.parametrize("tower", [SMALL, vision.Tower(3, 40, 5, 100, 48, 12)])
def test_parameters_flop_and_bytes_are_those_of_a_run_of_transformers(tower):
    net, pixels = built(tower), torch.randn(IMAGES, 3, tower.image, tower.image)
    own = sum(p.numel() for p in net.parameters())
    assert own == vision.tower_parameters(tower, text_width=TEXT).total
    with flop.FlopMeter(net) as meter:
        passed(net, pixels)
    wanted = vision.tower_flops(tower, text_width=TEXT, images=IMAGES)
    assert meter.parts.total() == wanted.total
    kept = saved.saved_bytes(lambda: passed(net, pixels).sum(), net)
    how = {"text_width": TEXT, "images": IMAGES, "bytes_per_element": 4, "small_tensors": True}
    assert kept == tower_activations.kept(tower, **how).total


def test_clip_s_published_size_and_what_is_refused():
    with torch.device("meta"):
        net = built(vision.CLIP_L_336)
    own = sum(p.numel() for p in net.parameters())
    found = vision.tower_parameters(vision.CLIP_L_336, text_width=TEXT)
    assert own == found.total and found.total - found.amount("projector") == 303_505_408
    assert vision.CLIP_L_336.patches == 576
    with pytest.raises(InputError, match="patch = 13"):
        vision.Tower(2, 48, 3, 160, 32, 13)
    with pytest.raises(InputError, match="expected a Tower"):
        vision.tower_flops("clip")
