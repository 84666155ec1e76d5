"""One style sheet for what the theme and the extensions bring, with only the rules that some page
can use.

A rule goes when it asks for a class or an id that no page carries and no script names, or with
:has() for what an element holds; a variable goes when nobody asks for it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

ICON_FONT = "Font Awesome"  # 156 kB for a dozen icons, which icons.css draws
FOCUS = ":focus-visible"  # the ring around the title of what unfolds
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRING_OR_BRACE = re.compile(r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]""", re.DOTALL)
INSIDE = re.compile(r":[\w-]+\([^()]*\)|\[[^\]]*\]")  # :not(...), [href]: asked for by nobody here
WANTED = re.compile(r"[.#](-?[A-Za-z_](?:\\.|[\w-])*)")
COMMA = re.compile(r",(?![^(]*\))")
BREAK = re.compile(r"(?<=[{};,])\s*\n\s*|\s*\n\s*(?=})")
IMPORT = re.compile(r"""@import\s+(?:url\()?["']?([^"')]+)["']?\)?;""")
VARIABLE = re.compile(r"""(?<=[{;\s])(--[\w-]+)\s*:[^;{}"']*(?:;|(?=\}))""")
ASKED = re.compile(r"var\(\s*(--[\w-]+)")
ADDRESS = re.compile(r"""url\((['"]?)(?!data:|#|/|https?:)([^'")]+)\1\)""")


def rules(css: str) -> Iterator[tuple[str, str | None]]:
    """Every rule as (what stands before the brace, what stands between the braces); a statement
    such as @charset has no braces.
    """
    depth = start = opened = 0
    for mark in STRING_OR_BRACE.finditer(css):
        sign = mark[0]
        if sign == "{":
            depth += 1
            if depth == 1:
                opened = mark.start()
        elif sign == "}":
            depth -= 1
            if depth == 0:
                yield css[start:opened].strip(), css[opened + 1 : mark.start()]
                start = mark.end()
        elif sign == ";" and depth == 0:
            yield css[start : mark.start()].strip(), None
            start = mark.end()


def can_apply(selector: str, words: set[str]) -> bool:
    """Whether the pages have all classes and ids that the selector asks for."""
    if ":has(" in selector and FOCUS not in selector:
        return False  # asked anew at every move of an experiment, and none of them is missed
    bare = selector
    while (less := INSIDE.sub("", bare)) != bare:
        bare = less
    return all(word.replace("\\", "") in words for word in WANTED.findall(bare))


def shaken(css: str, words: set[str]) -> str:
    """The style sheet without the rules that apply to nothing."""
    kept = []
    for head, body in rules(css):
        if body is None:
            kept += [] if head.startswith("@charset") else [f"{head};"]
        elif head.startswith(("@media", "@supports", "@layer", "@container")):
            inner = shaken(body, words)
            kept += [f"{head}{{{inner}}}"] if inner else []
        elif head.startswith("@"):
            kept += [] if ICON_FONT in body else [f"{head}{{{body}}}"]
        else:
            alive = [s.strip() for s in COMMA.split(head) if can_apply(s, words)]
            kept += [f"{','.join(alive)}{{{body}}}"] if alive else []
    return "\n".join(kept)


def read(file: Path, static: Path) -> str:
    """A style sheet and those it imports, with addresses that start from the folder `static`."""

    def address(match: re.Match) -> str:
        place = (file.parent / match[2]).resolve().relative_to(static.resolve())
        return f"url({place.as_posix()})"

    css = COMMENT.sub("", file.read_text("utf-8"))
    parts = IMPORT.split(css)  # between what is written here, the names of others
    for i, part in enumerate(parts):
        parts[i] = read(file.parent / part, static) if i % 2 else ADDRESS.sub(address, part)
    return "".join(parts)


def without_spare_variables(css: str, asked_elsewhere: set[str]) -> str:
    """The style sheet without variables that nobody asks for, or only others of them."""
    asked = asked_elsewhere | set(ASKED.findall(css))
    less = VARIABLE.sub(lambda v: v[0] if v[1] in asked else "", css)
    return css if less == css else without_spare_variables(less, asked_elsewhere)


def gathered(files: list[Path], static: Path, words: set[str]) -> str:
    """The style sheets as one, in their order, without the space that only people need."""
    css = "\n".join(shaken(read(file, static), words) for file in files)
    return without_spare_variables(BREAK.sub("", css), words)
