"""No line ends between a number and its unit: 80 GB, 64 GPUs, 3.14 × 10²³ FLOP; nor in a product,
(p − 1)(F + B) or 3 ⋅ 4, nor between a formula and its comma. And an apostrophe is curved: a rank’s
share.

The page's last word about both: the build sends every page through it, and an experiment its
live results. What a notebook stores stays as it is. Code, pictures and fields are left alone.
"""

import re

from mathlib.show import says

# a tag, a comment, what is passed over as a whole, or text
TOKEN = re.compile(
    r"<!--.*?-->|<(script|style|svg|pre|math|textarea|select|title)\b.*?</\1>"
    r"|<(/?)([a-zA-Z][\w-]*)((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>|[^<]+|<",
    re.S,
)
INLINE = frozenset(
    ("a", "abbr", "b", "cite", "code", "em", "i", "kbd", "mark", "q", "s", "small", "span")
    + ("strong", "sub", "sup", "u", "var", "wbr")
)
UNITS = rf"{says.PREFIXED}|{says.WORDS}|{says.THINGS}"
RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
TIMES, PLUS = "(?:⋅|&sdot;)", r"(?:\+|−|&minus;)"
BREAK = re.compile(
    rf"[\d{RAISED}][kKMBT]?\u200b*(?P<unit>[ \n\t]+)(?=(?:{UNITS})(?!\w))"
    rf"|(?<=\d)(?P<before>[ \n\t]+)(?=×\s10[\d{RAISED}])"
    rf"|(?<=\d\s×)(?P<after>[ \n\t]+)(?=10[\d{RAISED}])"
    rf"|(?<=\d)(?P<times>[ \n\t]+)(?={TIMES}\s\d)|{TIMES}(?P<factor>[ \n\t]+)(?=\d)"
    rf"|(?<=\(\w)(?P<sign>[ \n\t]+)(?={PLUS}\s\w\))"
    rf"|(?<=\(\w\s){PLUS}(?P<term>[ \n\t]+)(?=\w\))"
)
SPLIT = re.compile(  # where a typeset 3.14 × 10²³ may end a line: behind the sign
    r'(?<=<span class="mbin">×</span><span class="mspace" style="margin-right:0.2222em;"></span>'
    r'</span>)(?=<span class="base"><span class="strut"[^>]*></span><span class="mord">10?<)'
)
QUOTE = "(?:'|&#x27;|&#39;)"
APOSTROPHE = re.compile(rf"(?<=[^\W_]){QUOTE}(?=[^\W\d_])|(?<=[a-z]s){QUOTE}(?= [a-z])")
SPACE, JOINER = "\u00a0", "\u2060"
END = "\0"  # of a paragraph, a cell, a line


def unbroken(html: str) -> str:
    """HTML with a no-break space between each number and its unit, and curved apostrophes.

    Behind a formula the space alone does not hold, for a formula is a box to the browser.
    """
    parts, words = [], []  # of the HTML; of what is read
    places: list[tuple[int, bool, bool]] = []  # where the latter stand
    code = formula = 0
    for found in TOKEN.finditer(html):
        text, name = found[0], (found[3] or "").lower()
        parts.append(text)
        if not text.startswith("<"):
            if not code:
                text = APOSTROPHE.sub("\u2019", text).replace(")(", f"){JOINER}(")
                if places and places[-1][2] and not formula and text[0] in ",.;:)":
                    text = JOINER + text
                parts[-1] = text
            words.append(text)
            places.append((len(parts) - 1, not code, bool(formula)))
        elif name not in INLINE:
            if name or found[1]:
                words.append(END)
                places.append((-1, False, False))
        elif name == "code":
            code += -1 if found[2] else 1
        elif name == "span" and (formula or 'class="katex"' in found[4]):
            formula += -1 if found[2] else 1
    return SPLIT.sub(JOINER, _joined(parts, words, places))


def _joined(parts: list[str], words: list[str], places: list[tuple[int, bool, bool]]) -> str:
    """The parts again, with no-break spaces in them."""
    starts, at = [], 0
    for text in words:
        starts.append(at)
        at += len(text)
    made: dict[int, list[tuple[int, int, str]]] = {}
    which = 0
    for found in BREAK.finditer("".join(words)):
        name = found.lastgroup or ""
        start, end = found.span(name)
        while which + 1 < len(starts) and starts[which + 1] <= start:
            which += 1
        part, open_, _ = places[which]
        inside = end <= starts[which] + len(words[which])
        if open_ and inside:
            boxed = start == starts[which] and which > 0 and places[which - 1][2]
            span = start - starts[which], end - starts[which]
            made.setdefault(part, []).append((*span, JOINER * boxed + SPACE))
    for part, changes in made.items():
        for start, end, space in reversed(changes):
            parts[part] = parts[part][:start] + space + parts[part][end:]
    return "".join(parts)
