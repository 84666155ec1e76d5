"""One PDF of the built book: cover, contents, chapters, trials; `make pdf` builds the site first.

`python tools/pdf.py SITE FILE` prints every page with a browser and binds them. Solutions stand
at the end of their chapter, and links between pages go from page to page.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "book/_ext"))
import contents  # noqa: E402
import pdf_front  # noqa: E402
from address import site_of  # noqa: E402
from pdf_bind import Binding  # noqa: E402
from pdf_print import Press, Printed, press  # noqa: E402
from serve import served  # noqa: E402

LEFT_OUT = [  # pages that are tools or lists of the site itself
    *("book/plan", "book/measure-your-own", "book/how-to-run", "book/how-to-publish", "book/map")
]
LEDGER = "book/ledger"


def book() -> dict[str, list[str]]:
    """The parts of the file and their pages, ledger and trials behind all that teaches."""
    pages = {part["caption"]: contents.pages_of(part) for part in contents.parts(ROOT)}
    kept = {name: [page for page in of if page not in LEFT_OUT] for name, of in pages.items()}
    trials = [
        page
        for of in kept.values()
        for page in of
        if page == LEDGER or page.startswith("chapters/trials/")
    ]
    parts = {name: [page for page in of if page not in trials] for name, of in kept.items()}
    reference = parts.pop("Reference")
    parts |= {"Appendix: claims on trial": trials, "Reference": reference}
    return parts


def elsewhere(home: str) -> dict[str, str]:
    """The titles of the pages that are left out, by their address on the site."""
    return {f"{home}{page}.html": contents.title(ROOT, page) for page in LEFT_OUT}


def parts(only: list[str] | None) -> dict[str, list[str]]:
    """All of the book, or these pages of it."""
    whole = book()
    pages = {page for of in whole.values() for page in of}
    for page in only or ():
        if page not in pages:
            raise SystemExit(f"--only {page}: expected some of {', '.join(sorted(pages))}")
    kept = {name: [page for page in of if page in (only or pages)] for name, of in whole.items()}
    return {name: of for name, of in kept.items() if of}


def printed(on: Press, pages: list[str]) -> Iterator[Printed]:
    """Each page in turn, and how far one is."""
    for i, name in enumerate(pages):
        began = time.monotonic()
        one = on.print(name)
        took = time.monotonic() - began
        print(f"{i + 1} of {len(pages)}: {name}, {len(one)} pages, {took:.0f} s", flush=True)
        yield one


def bind(site: Path, chosen: dict[str, list[str]], home: str) -> Binding:
    """All of it, in order, with its links, numbers and outline."""
    pages = [page for of in chosen.values() for page in of]
    missing = [page for page in pages if not (site / f"{page}.html").exists()]
    if missing:
        raise SystemExit(f"{site}: expected {missing[0]}.html in it; run `make html` first")
    with served(site) as origin, press(origin, site) as on:
        body = list(printed(on, pages))
        counted = pdf_front.numbered(body)
        cover = on.own("cover", "Cover", pdf_front.cover(ROOT))
        told = pdf_front.table_of(chosen, counted, origin, elsewhere(home))
        list_of = on.own("contents", "Contents", told)
        poster = on.own("poster", "The five axes", pdf_front.poster_page())
    file = Binding([cover, list_of, poster], body, origin, home)
    file.link()
    file.number()
    file.outline({of[0]: name for name, of in chosen.items()})
    file.writer.add_metadata(pdf_front.metadata())
    return file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="+", metavar="PAGE", help="such as chapters/tensor")
    args = parser.parse_args()
    repository = os.environ.get("BOOK_REPOSITORY", "")
    began = time.monotonic()
    file = bind(args.site, parts(args.only), site_of(repository) if repository else "")
    file.writer.compress_identical_objects()
    args.file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = args.file.with_suffix(".part")
    file.writer.write(unfinished)
    unfinished.replace(args.file)
    size, many = args.file.stat().st_size / 1e6, len(file.writer.pages)
    print(f"{args.file}: {many} pages, {size:.1f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
