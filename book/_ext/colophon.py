"""Which edition of the book this is: its version, and the day of its last change.

The version is the library's. A page of a site whose address is known (address.py) has the day as
well, on each page; elsewhere every commit would write all pages anew.
"""

import subprocess
import tomllib
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config


def version(root: Path) -> str:
    return tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def day(root: Path) -> str:
    """The day of the last commit; nothing where there is no history."""
    command = ["git", "-C", str(root), "log", "-1", "--format=%cs"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return told.stdout.strip()


def edition(root: Path, dated: bool = True) -> str:
    """Version 0.1.0, 2026-11-29."""
    when = day(root) if dated else ""
    return f"Version {version(root)}" + (f", {when}" if when else "")


def configure(app: Sphinx, config: Config) -> None:
    told = edition(Path(app.confdir), dated=bool(config.html_baseurl))
    config.html_theme_options["extra_footer"] = f'<p class="mlx-edition">{told}</p>'


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", configure, priority=2)  # after the address
    return {"parallel_read_safe": True, "parallel_write_safe": True}
