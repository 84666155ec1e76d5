"""How long each part of `make test` takes, as results/minutes.md keeps it and `make test` says it.

    python bench/minutes.py                  all five parts, on a machine that does nothing else
    python bench/minutes.py lint notebooks   some of them; the other rows stay

The site is built before its part is timed only if it is not there: remove _build to count that too.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from run import machine

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("results") / "minutes.md"
PARTS = {"lint": "lint"} | {p: f"test-{p}" for p in ("formulas", "runs", "notebooks", "site")}


def renewed(table: str, part: str, *cells: str) -> str:
    """The table with a new row for this part, the others as they were."""
    new = "| " + " | ".join([part, *cells]) + " |"
    lines = [new if line.startswith(f"| {part} |") else line for line in table.splitlines()]
    return "\n".join(lines) + "\n"


def main(parts: list[str]) -> None:
    if unknown := set(parts) - set(PARTS):
        sys.exit(f"part = {', '.join(unknown)}: expected any of {', '.join(PARTS)}")
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True)
    for part in parts or PARTS:
        begin = time.monotonic()
        subprocess.run(["make", PARTS[part]], cwd=ROOT, check=True)
        minutes = f"{(time.monotonic() - begin) / 60:.1f}"
        where = f"{machine()['cpu']}, {os.cpu_count()} cores"
        table = renewed(TABLE.read_text("utf-8"), part, minutes, commit.stdout.strip(), where)
        TABLE.write_text(table, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
