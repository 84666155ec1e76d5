"""Between a number and its unit no line ends, and a reader who types a plain space finds both."""

import re

import pytest

from mathlib.show.unbroken import UNITS

BROKEN = r"""(pattern) => {
    const skip = 'pre, code, svg, script, style, textarea, select, .katex-mathml',
        walker = document.createTreeWalker(document.querySelector('article'), NodeFilter.SHOW_TEXT),
        blocks = new Map();
    const block = (e) => {
        while (getComputedStyle(e).display.startsWith('inline')) e = e.parentElement;
        return e;
    };
    for (let node; (node = walker.nextNode());) {
        if (node.parentElement.closest(skip) || !node.parentElement.checkVisibility()) continue;
        const home = block(node.parentElement);
        if (!blocks.has(home)) blocks.set(home, []);
        blocks.get(home).push(...[...node.data].map((c, i) => [c, node, i]));
    }
    const at = ([, node, i]) => {
        const range = new Range();
        range.setStart(node, i);
        range.setEnd(node, i + 1);
        return [...range.getClientRects()].pop();
    };
    const found = [];
    for (const letters of blocks.values()) {
        const kept = letters.filter(([c]) => c.length === 1 && !/[\u200b\u2060]/.test(c));
        const text = kept.map(([c]) => c).join('');
        for (const { 0: all, index } of text.matchAll(new RegExp(pattern, 'gu'))) {
            const gap = index + all.search(/\s/), end = gap + /\s+/.exec(all)[0].length;
            const [one, other] = [at(kept[gap - 1]), at(kept[end])];
            if (one && other && other.left < one.left) found.push(text.slice(gap - 20, end + 12));
        }
    }
    return found;
}"""
WITH_UNIT = rf"[\d⁻⁰¹²³⁴⁵⁶⁷⁸⁹][kKMBT]?\s+(?:{UNITS})(?!\w)"


def complaints(page) -> list[str]:
    """Numbers that a line's end parts from their units."""
    return page.evaluate(BROKEN, WITH_UNIT)


def test_no_line_ends_between_a_number_and_its_unit(desk):
    assert complaints(desk.page) == []


def test_nor_on_a_phone(phone):
    assert complaints(phone.page) == []


def test_a_broken_unit_is_seen(visit):
    page = visit("book/index").page
    page.evaluate(
        """() => { for (const space of [' ', '\\u00a0', ' ']) {
            const p = document.createElement('p');
            p.style.width = '5.2em';
            p.textContent = `about 80${space}GB`;
            document.querySelector('article').append(p);
        } }"""
    )
    assert len(complaints(page)) == 2


@pytest.mark.parametrize("query", ["64 GPUs", "80 GB"])
def test_search_finds_a_unit_typed_with_a_plain_space(look, query):
    page = look("search").page
    found = page.evaluate(
        """async (query) => {
            const script = document.querySelector('script[src*="search.mjs"]').src;
            const { rank, prepare } = await import(script);
            const text = `about ${query.replace(' ', '\\u00a0')} of it`;
            const one = { title: 'x', page: 'y', kind: 'section', text, url: 'u' };
            return rank(prepare([one]), query).length;
        }""",
        query,
    )
    assert found == 1 and not re.search("\u00a0", query)
