"""How wide words are: a small table of advance widths, so that boxes fit what is written in them.

Of each letter the wider of Source Sans 3, the site's face, and Arial, which stands in for it in a
notebook, in thousandths of the size; the widths of bold letters are 8% more.
"""

from functools import cache

GROUPS = {
    260: "\"'’ijl|",
    280: " ,.:;I\xa0·\u2009\u202f",
    300: "!f",
    320: "[]",
    340: "()-t{}",
    360: "/\\r",
    380: "⁰¹²³⁴⁵⁶⁷⁸⁹⁻",
    500: "J^cksvxyzκ∂*",
    560: "#$0123456789?L_`abdeghnopqu–≤≥η",
    600: "+<=>~×−µαβ",
    620: "FTZ↓↑Σ",
    680: "&ABEKPSVXYΔ",
    740: "CDHNRUw",
    780: "GOQ",
    840: "Mm½",
    960: "%W@",
    1000: "→←…",
}
ADVANCE = {letter: wide for wide, letters in GROUPS.items() for letter in letters}
UNKNOWN, BOLD = 750, 1.08


@cache
def _em(words: str) -> float:
    # whole numbers: sum() of others rounds otherwise from Python 3.12 on, as in the browser
    return sum(ADVANCE.get(letter, UNKNOWN) for letter in words) / 1000


def width(words: str, size: float, bold: bool = False) -> float:
    """The most that a line of words takes, in the units of its size."""
    return _em(words) * size * (BOLD if bold else 1)


def lines(words: str, room: float, size: float, bold: bool = False) -> list[str]:
    """The words in lines no wider than the room; a single word that is wider stays whole."""
    found = [""]
    for word in words.split(" "):
        longer = f"{found[-1]} {word}" if found[-1] else word
        if found[-1] and width(longer, size, bold) > room:
            found.append(word)
        else:
            found[-1] = longer
    return found
