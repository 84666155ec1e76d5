"""The library's real runs against PyTorch's own, as ratios: above 1, ours is faster.

    python bench/run.py               every section
    python bench/run.py ring ddp      some of them
    python bench/run.py --quick       a few rounds only, to see that it runs
    python bench/run.py --keep        also write the rows into bench/results/

Every comparison alternates its candidates, one after the other in each round, so that a busy moment
of the machine hits all alike. Times are medians over the rounds of the slowest rank's time; the
ratio is the median of the rounds' ratios, and beside it stands the middle half of them. One thread
a rank.
"""

import argparse
import datetime
import importlib
import json
import os
import platform
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
# Whatever file here has a function `rows` is a section.
SECTIONS = [p.stem for p in sorted(HERE.glob("*.py")) if "\ndef rows(" in p.read_text("utf-8")]


def machine() -> dict:
    """What the figures depend on, without a word that would name the machine."""
    import torch

    cpu = platform.processor()
    if (info := Path("/proc/cpuinfo")).exists():
        found = re.search(r"model name\s*: (.+)", info.read_text())
        cpu = found[1] if found else cpu
    memory = (
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None
    )
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "system": system,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def table(rows: list[dict]) -> str:
    """What was compared, the times in milliseconds, and how many times faster ours is."""
    head = ["what", "ours", "ours, ms", "theirs", "theirs, ms", "ratio", "middle half"]
    lines = [head]
    for row in rows:
        mine, other = (f"{1e3 * row[name]:.2f}" for name in ("ours_seconds", "theirs_seconds"))
        lines.append(
            [
                row["what"],
                row["ours"],
                mine,
                row["theirs"],
                other,
                f"{row['ratio']:.2f}",
                f"{row['low']:.2f} to {row['high']:.2f}",
            ]
        )
    wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, wide)) for line in lines)


def kept() -> Path:
    """The file of today's rows."""
    return HERE / "results" / f"{datetime.date.today().isoformat()}-{os.cpu_count()}-cores.json"


def keep(section: str, rows: list[dict]) -> None:
    """The rows of a section so far, in the place of all that it had today."""
    file = kept()
    file.parent.mkdir(exist_ok=True)
    sections = json.loads(file.read_text())["sections"] if file.exists() else {}
    sections[section] = rows
    date = datetime.date.today().isoformat()
    told = {"date": date, "machine": machine(), "sections": sections}
    file.write_text(json.dumps(told, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "section", nargs="*", help=f"any of {', '.join(SECTIONS)}; all if none is named"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="write the rows into bench/results/, with date and machine",
    )
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that it runs")
    choice = parser.parse_args()
    if unknown := set(choice.section) - set(SECTIONS):
        parser.error(f"section = {', '.join(unknown)}: expected any of {', '.join(SECTIONS)}")
    for name in choice.section or SECTIONS:
        rows = []
        for row in importlib.import_module(name).rows(quick=choice.quick):
            rows.append(row)
            print(f"\r{name}: {len(rows)} comparisons done", end="", file=sys.stderr, flush=True)
            if choice.keep:  # at once: whoever ends it early has what was measured
                keep(name, rows)
        print(file=sys.stderr)
        print(f"{table(rows)}\n", flush=True)
    if choice.keep:
        print(f"kept in {kept().relative_to(HERE.parent)}")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent))
    main()
