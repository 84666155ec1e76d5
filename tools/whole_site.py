"""Whether a built site is whole: `tools/whole_site.py [SITE]` names what is missing, then fails.

Every page of _toc.yml is there with the words of its source, and the search finds something on it.
A deploy asks before it replaces the site that readers have.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))
import contents  # noqa: E402

FEWEST = 200  # words of a page, however short its source: the build writes some of them
SHARE = 0.8  # of its source's words, less what is only marking up
WORD = re.compile(r"[^\W\d_]{3,}")
UNREAD = re.compile(r"<(script|style|svg)\b.*?</\1>|<[^>]+>", re.DOTALL)


def wrongs(root: Path, site: Path) -> Iterator[str]:
    """What is missing, each in a line."""
    found = site / "sections.json"
    told = json.loads(found.read_text("utf-8")) if found.exists() else []
    for page in contents.every_page(root):
        html = site / f"{page}.html"
        if not html.exists():
            yield f"{page}: no page"
            continue
        has = len(WORD.findall(UNREAD.sub(" ", article(html.read_text("utf-8")))))
        needed = max(FEWEST, int(SHARE * len(WORD.findall(source(root / page)))))
        if has < needed:
            yield f"{page}: {has} words, expected at least {needed}"
        if not any(one["url"].partition("#")[0] == f"{page}.html" for one in told):
            yield f"{page}: nothing in the search index"


def article(html: str) -> str:
    """A page without what frames it."""
    return html[html.find("<article") : html.rfind("</article>")]


def source(page: Path) -> str:
    """What somebody wrote: a page, or all cells of a notebook."""
    notebook = page.with_suffix(".ipynb")
    if not notebook.exists():
        return page.with_suffix(".md").read_text("utf-8")
    return "\n".join("".join(c["source"]) for c in json.loads(notebook.read_text("utf-8"))["cells"])


if __name__ == "__main__":
    site = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "_build/html"
    found = list(wrongs(ROOT, site))
    sys.exit("\n".join(found) if found else 0)
