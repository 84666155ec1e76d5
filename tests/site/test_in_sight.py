"""Whoever moves a setting sees the picture: both stand in one window, at a desk and on a phone."""

import pytest
from pages import PHONE, chapter_pages

SHARE = 0.25  # of the window that settings may take
TOGETHER = """() => [...document.querySelectorAll('.mlx')].map((root) => {
    const drawn = [...root.querySelectorAll('.mlx-output :is(figure, svg)')];
    const picture = drawn.find((e) => e.getBoundingClientRect().height > 40);
    const under = document.querySelector('.bd-header-article').getBoundingClientRect().height;
    const top = scrollY + picture.getBoundingClientRect().top - under;
    window.scrollTo({ top, behavior: 'instant' });
    const rows = [...root.querySelectorAll('.mlx-control')].slice(0, 3);
    const seen = rows.filter((row) => {
        const { left, top, width, height } = row.getBoundingClientRect();
        const [x, y] = [left + width / 2, top + height - 8];
        return y + 8 <= innerHeight && row.contains(document.elementFromPoint(x, y));
    });
    const [first, last] = [rows[0], rows.at(-1)].map((row) => row.getBoundingClientRect());
    return [JSON.parse(root.dataset.mlx).id, seen.length === rows.length,
        Math.round(picture.getBoundingClientRect().top - under),
        (last.bottom - first.top) / innerHeight];
})"""


def together(seen):
    found = seen.page.evaluate(TOGETHER)
    assert found, "a chapter without an experiment"
    for name, controls, top, share in found:
        assert controls and abs(top) < 2, f"{name}: not in one window with its picture"
        assert share < SHARE, f"{name}: settings take {share:.0%} of the window"


@pytest.mark.parametrize("page_once", chapter_pages(), indirect=True)
def test_a_picture_and_its_first_settings_stand_in_one_window(desk):
    together(desk.seen({"width": 1280, "height": 800}))


@pytest.mark.parametrize("page_once", chapter_pages(), indirect=True)
def test_they_do_on_a_phone(phone):
    together(phone.seen(PHONE))
