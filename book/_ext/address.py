"""Everything that needs the repository's address: Binder, Colab, source and issue links, sitemap,
social cards.

One setting gives it: the environment variable BOOK_REPOSITORY, https://github.com/<owner>/<name>.
Without it no such link is written, so that none is dead.
"""

import os
import re

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

# main, plus a first cell in each chapter that installs the library; written by the Pages workflow
LAUNCH_BRANCH = "launch"


def site_of(repository: str) -> str:
    """Where GitHub Pages serves a repository."""
    owner, name = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", repository).groups()
    root = f"https://{owner.lower()}.github.io/"
    return root if name.lower() == f"{owner.lower()}.github.io" else f"{root}{name}/"


def configure(app: Sphinx, config: Config) -> None:
    repository = os.environ.get("BOOK_REPOSITORY", "").removesuffix("/").removesuffix(".git")
    if not repository:
        return
    if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", repository):
        raise ConfigError(
            f"BOOK_REPOSITORY = {repository!r}: expected https://github.com/<owner>/<name>"
        )
    config.html_theme_options |= {
        "repository_url": repository,
        "repository_branch": "main",
        "path_to_docs": "",
        "use_repository_button": True,
        "use_issues_button": True,
        "use_source_button": True,
        "launch_buttons": {
            "binderhub_url": "https://mybinder.org",
            "colab_url": "https://colab.research.google.com",
            "notebook_interface": "jupyterlab",
        },
    }
    config.html_baseurl = site_of(repository)
    config.sitemap_url_scheme = "{link}"


def launch_from_branch(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object
) -> None:
    """Binder and Colab open the branch whose chapters install the library first."""
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            url = button.get("url", "")
            if "mybinder.org" in url:
                button["url"] = url.replace("/main?", f"/{LAUNCH_BRANCH}?")
            elif "colab.research" in url:
                button["url"] = url.replace("/blob/main/", f"/blob/{LAUNCH_BRANCH}/")


def setup(app: Sphinx) -> dict:
    if os.environ.get("BOOK_REPOSITORY"):
        app.setup_extension("sphinx_sitemap")
    app.connect("config-inited", configure, priority=1)
    app.connect("html-page-context", launch_from_branch, priority=1000)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
