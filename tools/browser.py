"""Find a browser for the site's tests: an installed Chrome or Chromium, else Playwright's own, else
Debian's package.

`python tools/browser.py` prints its path, installing one where it can; BROWSER_PATH names one by
hand.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = (
    "google-chrome",
    "google-chrome-stable",
    "chromium",
    "chromium-browser",
    "chrome",
    "msedge",
)
PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)
FLAGS = [
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
]


def installed() -> str | None:
    """A browser that is already there."""
    if named := os.environ.get("BROWSER_PATH"):
        return named
    commands = [path for name in NAMES if (path := shutil.which(name))]
    for path in [*commands, *PLACES]:
        if Path(path).exists():
            return path
    return playwrights_own()


def playwrights_own() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def attempt(*command: str) -> bool:
    """Run a command quietly; whether it succeeded."""
    return (
        subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


def install() -> str | None:
    """Playwright's own Chromium, else Debian's package where this user may install it."""
    with_what_it_needs = ["--with-deps"] if is_root() else []
    if attempt(sys.executable, "-m", "playwright", "install", *with_what_it_needs, "chromium"):
        return installed()
    if is_root() and shutil.which("apt-get"):
        attempt("apt-get", "update")
        attempt("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
    return installed()


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def flags() -> list[str]:
    """How it is started: no traffic of its own; without its sandbox for root, who cannot have
    one.
    """
    return FLAGS + (["--no-sandbox"] if is_root() else [])


if __name__ == "__main__":
    path = installed() or install()
    if not path:
        sys.exit(
            "No browser: install Google Chrome or Chromium, or set BROWSER_PATH to one; the site's "
            "tests need it."
        )
    print(path)
