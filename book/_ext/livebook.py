"""Ships what runs in the reader's browser: Python, this library, the few lines that connect them
to the page, and the answers that stand there until Python has started.

Every file lies in a folder named after its content, so that a new version is never mixed with a
cached old one.
"""

import gzip
import hashlib
import json
import shutil
import subprocess
import zipfile
from io import BytesIO
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from typeset import node

from mathlib.show.experiments import Experiment, Line, Named, registry

PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
NOT_IN_PAGE = {"precompile.mjs"}  # of book/live, run at build time
COMPILER = ("precompile.mjs", "precompile.py", "unpack.mjs")
NOT_IN_BROWSER = {  # real runs, and data that no experiment reads; of the rest, what none imports
    *("launch", "meters", "model", "parallel", "cli", "trials", "__pycache__"),
    *("__main__.py", "claims.toml", "configurations.toml", "launches.toml", "sweeps.toml"),
    *("conventions.toml", "printed.toml"),
}
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


def library_zip(package: Path) -> bytes:
    """The library's sources as a zip whose bytes depend on nothing but them."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            inside = path.relative_to(package.parent)
            if path.suffix in (".py", ".toml") and not NOT_IN_BROWSER & set(inside.parts):
                archive.writestr(
                    zipfile.ZipInfo(inside.as_posix(), (1980, 1, 1, 0, 0, 0)),
                    path.read_bytes(),
                    zipfile.ZIP_DEFLATED,
                )
    return out.getvalue()


def digest(*contents: bytes) -> str:
    whole = hashlib.sha256()
    for content in contents:
        whole.update(f"{len(content)} ".encode() + content)
    return whole.hexdigest()[:10]


def pack(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def near(one: Experiment) -> list[dict[str, object]]:
    """Settings that are answered ahead: one control moved, the others where the page has them. Of
    a line that takes any letters these are what one key makes of it, and what is likely; of many
    names the likely ones.
    """
    moves = [
        (c.name, c.touches() if isinstance(c, Line | Named) else c.offers()) for c in one.controls
    ]
    return [one.values(), *(one.values({name: v}) for name, values in moves for v in values)]


def shelf(one: Experiment) -> bytes:
    """Its results, each once, and the number of each by the settings as the page writes them."""
    asked = {json.dumps(as_written(v), separators=(",", ":")): v for v in near(one)}
    answers = {key: one.page(values) for key, values in asked.items()}
    pages = list(dict.fromkeys(answers.values()))
    places = {page: i for i, page in enumerate(pages)}
    told = {"pages": pages, "places": {key: places[page] for key, page in answers.items()}}
    return pack(json.dumps(told).encode())


def as_written(values: dict[str, object]) -> dict[str, object]:
    """A script writes 1.0 as 1."""
    whole = {n: int(v) for n, v in values.items() if isinstance(v, float) and v.is_integer()}
    return {**values, **whole}


def shelves(cache: Path, key: str) -> dict[str, bytes]:
    """One packed file for each experiment, computed once for each state of the library."""
    if not (cache / key).exists():
        shutil.rmtree(cache, ignore_errors=True)
        new = cache / "new"
        new.mkdir(parents=True)
        for one in registry().values():
            (new / f"{one.id}.packed").write_bytes(shelf(one))
        new.rename(cache / key)
    return {path.name: path.read_bytes() for path in sorted((cache / key).iterdir())}


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


def compiled(live: Path, library: bytes, cache: Path) -> Path:
    """A folder with both libraries as byte code, made once for each state of what goes in."""
    pyodide = live / "node_modules/pyodide"
    compiler = [(live / name).read_bytes() for name in COMPILER]
    key = digest(library, *compiler, (pyodide / "package.json").read_bytes())
    if not (cache / key / "homes.json").exists():
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        (cache / "sources.zip").write_bytes(library)
        subprocess.run(
            [node(), live / COMPILER[0], pyodide, cache / "sources.zip", cache / key],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    return cache / key


def gather(app: Sphinx, config: Config) -> None:
    """Read what will be shipped. Names and checksums are settings, so that a change writes every
    page anew.
    """
    live = Path(app.confdir) / "book/live"
    pyodide = live / "node_modules/pyodide"
    library = library_zip(Path(app.confdir) / "mathlib")
    ready = compiled(live, library, Path(app.confdir) / "_build/live")
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    runtime = {name: (pyodide / name).read_bytes() for name in PYODIDE}
    runtime["python_stdlib.zip"] = (ready / "python_stdlib.zip").read_bytes()
    for name in PACKED:
        runtime[f"{name}.packed"] = pack(runtime.pop(name))
    runtime["pyodide-lock.json"] = json.dumps(
        {**lock, "packages": {}}
    ).encode()  # none is ever asked for
    folder = f"pyodide-{digest(*runtime.values())}"
    modules = {
        path.name: path.read_bytes()
        for path in sorted(live.glob("*.mjs"))
        if path.name not in NOT_IN_PAGE
    }
    modules["mathlib.packed"] = pack((ready / "mathlib.files").read_bytes())
    key = digest(library, Path(__file__).read_bytes())  # what is stored, and how
    answers = shelves(Path(app.confdir) / "_build/answers", key)
    stored = f"answers-{digest(*answers.values())}"
    homes = (ready / "homes.json").read_text("utf-8")
    packed = modules["mathlib.packed"]
    modules["runtime.mjs"] = runtime_module(folder, runtime, packed, homes, stored)
    config.livebook_folder = f"live-{digest(*modules.values())}"
    config.livebook_static = digest(
        *(p.read_bytes() for p in sorted((live.parent / "_static").iterdir()))
    )
    app.livebook_files = {folder: runtime, config.livebook_folder: modules, stored: answers}


def ship(app: Sphinx) -> None:
    """Write the folders into _static, and remove the ones an earlier build left."""
    static = Path(app.outdir) / "_static"
    for old in [d for kind in ("pyodide", "live", "answers") for d in static.glob(f"{kind}-*")]:
        if old.name not in app.livebook_files:
            shutil.rmtree(old)
    for folder, files in app.livebook_files.items():
        if not (static / folder).exists():
            (static / folder).mkdir(parents=True)
            for file, content in files.items():
                (static / folder / file).write_bytes(content)


def add_script(
    app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object
) -> None:
    """Only pages that hold an experiment or a question load anything."""
    body = context.get("body") or ""
    if 'class="mlx"' in body or 'class="mlx-predict"' in body:
        app.add_js_file(f"{app.config.livebook_folder}/live.mjs", type="module")


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
    app.connect("builder-inited", ship)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
