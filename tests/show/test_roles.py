"""A look is said by the exact name, and no two names in a picture share one."""

import re
from pathlib import Path

import pytest

from mathlib.show import roles
from mathlib.show.kit import sheet
from mathlib.show.roles import PART_ROLES, ROLES, UNNAMED, look, looks


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("weights", "weights"),
        ("weights, forward", "weights"),  # no forward-blue, no backward-green
        ("weights, backward", "weights"),
        ("attention projections", "attention"),
        ("optimizer states", "optimizer"),
        ("recomputation", "recompute"),
    ],
)
def test_a_part_has_the_colour_of_its_role(name, role):
    assert look(name) == ROLES[role]


@pytest.mark.parametrize("name", ["my weights", "Weights", "optimizer (sharded)", "", "ruler"])
def test_nothing_is_guessed_from_a_name(name):
    assert look(name) == UNNAMED
    assert UNNAMED not in ROLES.values(), "a reader would take it for a role"


def test_two_names_of_a_role_keep_the_colour_and_change_shade_and_hatch():
    found = looks(["weights, forward", "weights, backward", "gradients"])
    assert (
        found["weights, forward"] == ROLES["weights"] and found["gradients"] == ROLES["gradients"]
    )
    assert found["weights, backward"][0] == roles.shade(ROLES["weights"][0], 1)
    assert found["weights, backward"][1] != ROLES["weights"][1]
    assert len({colour for colour, _ in found.values()}) == 3


def test_as_many_names_as_there_are_hatches_are_told_apart():
    names = [f"p{i}" for i in range(len(roles.HATCHES) + 1)]
    assert len(set(looks(names).values())) == len(names)
    assert list(looks(["b", "a", "b"])) == ["b", "a"], "in the order in which they come"


def test_every_name_leads_to_a_role_and_every_hatch_can_be_drawn():
    assert set(PART_ROLES.values()) <= set(ROLES)
    assert not set(PART_ROLES) & set(ROLES), "a role's own name needs no second word"
    written = [name for names in roles.PARTS.values() for name in names]
    assert len(written) == len(PART_ROLES), "a name stands twice"
    for _, hatch in [*ROLES.values(), *roles.SPARE]:
        assert hatch in {"", *roles.HATCHES}


def linear(part: int) -> float:
    share = part / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def light(colour: str) -> list[float]:
    """Red, green and blue as amounts of light."""
    return [linear(int(colour[i : i + 2], 16)) for i in (1, 3, 5)]


def oklab(rgb: list[float]) -> tuple[float, float, float]:
    """Lightness, green to red, blue to yellow, as far apart as they look (Ottosson 2020)."""
    r, g, b = (min(1.0, max(0.0, one)) for one in rgb)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


EYES = {  # what eyes without one kind of cone see (Machado, Oliveira and Fernandes 2009)
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no red": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no green": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "no blue": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}


def distance(one: str, other: str, eyes: str) -> float:
    seen = [
        oklab([sum(a * b for a, b in zip(row, light(c), strict=True)) for row in EYES[eyes]])
        for c in (one, other)
    ]
    return sum((a - b) ** 2 for a, b in zip(*seen, strict=True)) ** 0.5


MAIN = (
    *("weights", "gradients", "optimizer", "activations", "temporary", "logits"),
    *("forward", "backward", "communication", "idle"),
)
NEIGHBOURS = [
    *(("weights", "gradients"), ("gradients", "optimizer"), ("optimizer", "activations")),
    *(("activations", "temporary"), ("activations", "logits"), ("gradients", "activations")),
    *(("forward", "backward"), ("backward", "communication"), ("communication", "idle")),
    *(("backward", "idle"), ("weights", "master weights"), ("optimizer", "second moment")),
    *(("mlp", "attention"), ("attention", "attention scores"), ("attention scores", "vocabulary")),
]


@pytest.mark.parametrize("eyes", EYES)
def test_the_main_roles_are_told_apart_by_all_eyes(eyes):
    for i, one in enumerate(MAIN):
        for other in MAIN[i + 1 :]:
            assert distance(ROLES[one][0], ROLES[other][0], eyes) > 0.07, (one, other)


TOGETHER = (  # roles that stand in one legend, from dark to light
    ("master weights", "logits", "weights", "temporary", "optimizer", "gradients", "activations"),
    ("master weights", "weights", "main gradients", "optimizer", "gradients", "second moment"),
    ("main gradients", "optimizer", "gradients", "scales", "second moment"),
    ("vocabulary", "attention", "embedding", "attention values", "mlp", "attention scores"),
    ("backward", "communication", "forward", "recompute"),
    ("backward", "main gradients", "forward", "activations"),
)


@pytest.mark.parametrize("roles_together", TOGETHER, ids=lambda names: names[0])
def test_swatches_of_a_legend_are_told_apart_in_grey(roles_together):
    """As a screen or a printer without colours shows them: by luminance, in steps of L*."""
    shares = [dict(zip("rgb", light(ROLES[role][0]), strict=True)) for role in roles_together]
    luminance = [0.2126 * one["r"] + 0.7152 * one["g"] + 0.0722 * one["b"] for one in shares]
    lights = [116 * one ** (1 / 3) - 16 for one in luminance]
    assert all(b - a > 5 for a, b in zip(lights, lights[1:], strict=False)), lights


@pytest.mark.parametrize("pair", NEIGHBOURS, ids=" and ".join)
def test_neighbours_are_told_apart_in_grey(pair):
    one, other = (oklab(light(ROLES[role][0]))[0] for role in pair)
    assert abs(one - other) > 0.06


def test_no_two_roles_share_a_colour():
    colours = [colour for colour, _ in ROLES.values()]
    assert len(set(colours)) == len(colours)
    for i, one in enumerate(colours):
        for other in colours[i + 1 :]:
            assert distance(one, other, "all cones") > 0.045, (one, other)


def contrast(one: str, other: str) -> float:
    bright = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (light(one), light(other)))
    return (bright[1] + 0.05) / (bright[0] + 0.05)


def test_what_takes_time_and_the_darkest_rank_are_told_apart_on_a_dark_page():
    style = (Path(__file__).parents[2] / "book/_static/figures.css").read_text()
    dark = dict(re.findall(r'dark.*\[fill="(#\w+)"\] \{ fill: (#\w+)', style))
    times = {role: ROLES[role][0] for role in ("forward", "backward", "communication")}
    times = {role: dark.get(colour, colour) for role, colour in times.items()}
    for role, colour in times.items():
        assert contrast(colour, "#14181f") >= 3, role
    rank = dark[roles.rank_look(0, 8)[0]]
    assert distance(rank, times["communication"], "all cones") > 0.15


@pytest.mark.parametrize("page", ["#ffffff", "#14181f"])
def test_curves_and_limits_stand_out_from_a_white_and_a_dark_page(page):
    for colour in [*(colour for colour, _ in roles.SPARE), sheet.WARNING]:
        assert contrast(colour, page) >= 3, colour


@pytest.mark.parametrize("page", ["light", "dark"])
def test_the_names_of_curves_can_be_read(page):
    style = (Path(__file__).parents[2] / "book/_static/page.css").read_text()
    base, ink = (
        re.search(rf"--pst-color-{name}: light-dark\((#\w+), (#\w+)\)", style)[
            ("light", "dark").index(page) + 1
        ]
        for name in ("background", "text-base")
    )
    for colour in [*(colour for colour, _ in roles.SPARE), ROLES["measured"][0]]:
        share = int(re.search(r"(\d+)%, currentColor", roles.worded(colour))[1]) / 100
        assert contrast(roles.between(ink, colour, share), base) >= 4.5, colour


def test_words_on_a_colour_can_be_read():
    for colour, _ in ROLES.values():
        ink = {"#fff": "#ffffff", "#111": "#111111"}[sheet.ink(colour)]
        assert contrast(ink, colour) >= 4.5 or contrast(ink, colour) > contrast(
            "#ffffff" if ink == "#111111" else "#111111", colour
        ), colour


def test_ranks_get_lighter_in_their_order():
    for n in range(2, len(roles.RANKS) + 1):
        lights = [oklab(light(roles.rank_look(r, n)[0]))[0] for r in range(n)]
        assert all(b - a > 0.03 for a, b in zip(lights, lights[1:], strict=False))


@pytest.mark.parametrize("pieces", [2, 8, 9, 16, 64])
def test_every_piece_of_a_model_has_its_own_colour(pieces):
    found = [roles.piece_look(piece, pieces)[0] for piece in range(pieces)]
    assert len(set(found)) == pieces
    assert (found[0], found[-1]) == (roles.RANKS[0], roles.RANKS[-1])


def test_the_cards_of_the_front_page_use_the_same_colours():
    known = {colour for colour, _ in ROLES.values()} | {sheet.WARNING, *roles.RANKS}
    for drawing in (Path(__file__).parents[2] / "book" / "thumbs").glob("*.svg"):
        found = set(re.findall(r"#[0-9a-f]{6}", drawing.read_text("utf-8")))
        assert found and found <= known, f"{drawing.name}: {found - known} is no role's colour"
