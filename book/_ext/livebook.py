"""Ships what runs in the reader's browser: Python, this library, the few lines that connect them
to the page, and the answers that stand there until Python has started.

Every file lies in a folder named after its content, or after all that goes into it, so that a new
version is never mixed with a cached old one. What takes long is computed beside the build
(ahead.py), and waited for last.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ahead
from ahead import digest, pack
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ExtensionError

PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
NOT_IN_PAGE = {"precompile.mjs", "editor.mjs"}  # of book/live, run or bundled at build time
ENGINE = "node_modules/minisearch"  # of the search
LIVE = r'class="(mlx|mlx-predict|[\w ]+ mlx-runs)"'  # what live.mjs brings to life
PACKED = ("pyodide.asm.wasm", "python_stdlib.zip")  # by us: no host need compress them
RUNTIME = """// Written by the build: where Python lies, and what it costs to fetch.
export const pyodide = new URL('../{folder}/', import.meta.url);
export const packed = {{
{packed}
}};
export const scripts = {scripts}; // bytes of Python's own scripts over the wire, all else is packed
export const download = scripts + Object.values(packed).reduce((sum, {{ size }}) => sum + size, 0);
export const homes = {homes}; // module of each experiment
export const answers = new URL('../{answers}/', import.meta.url); // what the build has computed
"""


def runtime_module(
    folder: str, runtime: dict[str, bytes], library: bytes, homes: str, answers: str
) -> bytes:
    """What the scripts must know: where the packed files are, and what all that weighs."""
    files = {name: (f"../{folder}/{name}.packed", runtime[f"{name}.packed"]) for name in PACKED}
    files["mathlib.files"] = ("mathlib.packed", library)
    lines = [
        f"  '{name}': {{ address: new URL('{place}', import.meta.url), size: {len(content)} }},"
        for name, (place, content) in files.items()
    ]
    scripts = sum(len(pack(content)) for name, content in runtime.items() if "packed" not in name)
    text = RUNTIME.format(
        folder=folder,
        packed="\n".join(lines),
        scripts=scripts,
        homes=homes,
        answers=answers,
    )
    return text.encode()


def live_folder(root: Path) -> str:
    """The folder of scripts and library, which pages name before anybody knows what is in it."""
    scripts = own_scripts(root / "book/live").values()
    ready = ahead.folder(root, "live").name.encode()
    return f"live-{digest(ready, Path(__file__).read_bytes(), *scripts)}"


def own_scripts(live: Path) -> dict[str, bytes]:
    """Scripts of the book's own, and the engine of its search, by name."""
    found = sorted(live.glob("*.mjs"))
    own = {path.name: path.read_bytes() for path in found if path.name not in NOT_IN_PAGE}
    licence = (live / ENGINE / "LICENSE.txt").read_text("utf-8")
    engine = (live / ENGINE / "dist/es/index.js").read_text("utf-8").partition("\n//# source")[0]
    return own | {"minisearch.mjs": f"/*\n{licence}*/\n{engine}\n".encode()}


def gather(app: Sphinx, config: Config) -> None:
    """Begin with what takes long. Names and checksums are settings, so that a change writes every
    page anew.
    """
    root = Path(app.confdir)
    config.livebook_folder = live_folder(root)
    static = sorted((root / "book/_static").iterdir())
    config.livebook_static = digest(*(path.read_bytes() for path in static))
    app.livebook_ahead = subprocess.Popen(
        [sys.executable, ahead.__file__, root], stdin=subprocess.DEVNULL
    )


def computed(root: Path, live: str) -> dict[str, dict[str, bytes]]:
    """Folder, file: what was computed ahead, and what the scripts must know of it."""
    pyodide, ready = root / "book/live/node_modules/pyodide", ahead.folder(root, "live")
    runtime = {name: (pyodide / name).read_bytes() for name in PYODIDE}
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    runtime["pyodide-lock.json"] = json.dumps(
        {**lock, "packages": {}}
    ).encode()  # none is ever asked for
    runtime["python_stdlib.zip"] = (ready / "python_stdlib.zip").read_bytes()
    for name in PACKED:
        runtime[f"{name}.packed"] = pack(runtime.pop(name))
    shelves = sorted(ahead.folder(root, "answers").iterdir())
    answers = {path.name: path.read_bytes() for path in shelves}
    folder, stored = (
        f"{kind}-{digest(*files.values())}"
        for kind, files in (("pyodide", runtime), ("answers", answers))
    )
    packed, workshop, cells = (
        pack((ready / f"{n}.files").read_bytes()) for n in ("mathlib", "workshop", "cells")
    )
    homes = (ready / "homes.json").read_text("utf-8")
    told = runtime_module(folder, runtime, packed, homes, stored)
    return {
        folder: runtime,
        live: {
            "mathlib.packed": packed,
            "runtime.mjs": told,
            "workshop.packed": workshop,
            "cells.packed": cells,
            "editor.mjs": (ready / "editor.mjs").read_bytes(),
        },
        stored: answers,
    }


def ship_scripts(app: Sphinx) -> None:
    """Write the scripts into _static, where pages look for them."""
    write(app, {app.config.livebook_folder: own_scripts(Path(app.confdir) / "book/live")})


def ship_computed(app: Sphinx, failed: Exception | None) -> None:
    """The rest, when it has been computed; folders that an earlier build left go."""
    if failed:
        app.livebook_ahead.terminate()
        return
    if app.livebook_ahead.wait():
        raise ExtensionError("what pages compute ahead has failed; it is said above why")
    every = computed(Path(app.confdir), app.config.livebook_folder)
    for kind in ("pyodide", "live", "answers"):
        for old in (Path(app.outdir) / "_static").glob(f"{kind}-*"):
            if old.name not in every:
                shutil.rmtree(old)
    write(app, every)


def write(app: Sphinx, every: dict[str, dict[str, bytes]]) -> None:
    """Files by folder in _static, those that are not there."""
    for folder, files in every.items():
        place = Path(app.outdir) / "_static" / folder
        place.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            if not (place / file).exists():
                (place / file).write_bytes(content)


def add_script(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object
) -> None:
    """Only pages that hold an experiment, a question, a running cell or a puzzle load anything."""
    body = context.get("body") or ""
    if re.search(LIVE, body):
        app.add_js_file(f"{app.config.livebook_folder}/live.mjs", type="module")
    if 'class="mlx-puzzle"' in body:
        app.add_js_file(f"{app.config.livebook_folder}/workshop.mjs", type="module")
        app.add_css_file("workshop.css", priority=600)


def drop_thebe(app: Sphinx, config: object) -> None:
    """Jupyter Book 1 loads sphinx-thebe on every page, which names a third party and breaks a
    script.
    """
    for event, listeners in app.events.listeners.items():
        app.events.listeners[event] = [
            x
            for x in listeners
            if (getattr(x.handler, "__module__", ""), getattr(x.handler, "__name__", ""))
            not in {("sphinx_thebe", "init_thebe_core"), ("sphinx_thebe", "update_thebe_context")}
        ]


def setup(app: Sphinx) -> dict:
    app.add_config_value(
        "livebook_folder", "", "env"
    )  # pages hold results of the library: read them all anew
    app.add_config_value("livebook_static", "", "html")
    app.connect("config-inited", drop_thebe, priority=1)
    app.connect("config-inited", gather)
    app.connect("builder-inited", ship_scripts)
    app.connect("build-finished", ship_computed)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
