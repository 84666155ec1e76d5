"""Which edition of the book this is: its version, the day of its last change, its authors.

The version is the library's. A page of a site whose address is known (address.py) has the day as
well, on each page; elsewhere every commit would write all pages anew.
"""

import subprocess
import tomllib
from html import escape
from pathlib import Path

import yaml
from sphinx.application import Sphinx
from sphinx.config import Config

ROOT = Path(__file__).resolve().parents[2]


def version() -> str:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def day() -> str:
    """The day of the last commit; nothing where there is no history."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%cs"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git
        return ""
    return told.stdout.strip()


def edition(dated: bool = True) -> str:
    """Version 0.1.0, 2026-11-29."""
    when = day() if dated else ""
    return f"Version {version()}" + (f", {when}" if when else "")


def configured() -> dict:
    return yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))


def authors() -> str:
    """By whom, where the configuration names somebody; "the authors of" the book names nobody."""
    given = configured()
    return "" if given["title"] in given["author"] else f"By {given['author']}"


def configure(app: Sphinx, config: Config) -> None:
    told = [authors(), edition(dated=bool(config.html_baseurl))]
    lines = "".join(f"<p>{escape(line)}</p>" for line in told if line)
    config.html_theme_options["extra_footer"] = f'<div class="mlx-edition">{lines}</div>'


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", configure, priority=2)  # after the address
    return {"parallel_read_safe": True, "parallel_write_safe": True}
