"""Ships what runs in the reader's browser: Python, this library, and the few lines that connect them to the page.

Every file lies in a folder named after its content, so that a new version is never mixed with a cached old one.
"""

import hashlib
import json
import shutil
import zipfile
from io import BytesIO
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config

PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
NOT_IN_BROWSER = {"dist", "__pycache__", "claims.toml"}


def library_zip(package: Path) -> bytes:
    """The library's sources as a zip whose bytes depend on nothing but them."""
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            inside = path.relative_to(package.parent)
            if path.suffix in (".py", ".toml") and not NOT_IN_BROWSER & set(inside.parts):
                archive.writestr(zipfile.ZipInfo(inside.as_posix(), (1980, 1, 1, 0, 0, 0)), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def runtime_files(pyodide: Path) -> dict[str, bytes]:
    """Python for the browser; its list of downloadable packages is left empty, since none is ever asked for."""
    lock = json.loads((pyodide / "pyodide-lock.json").read_text())
    return {**{name: (pyodide / name).read_bytes() for name in PYODIDE},
            "pyodide-lock.json": json.dumps({**lock, "packages": {}}).encode()}


def folder_of(name: str, files: dict[str, bytes]) -> str:
    """name-<checksum of the files>."""
    digest = hashlib.sha256()
    for file, content in sorted(files.items()):
        digest.update(f"{file} {len(content)} ".encode() + content)
    return f"{name}-{digest.hexdigest()[:10]}"


def gather(app: Sphinx, config: Config) -> None:
    """Read what will be shipped; its folder's name is a setting, so that a change writes every page anew."""
    root = Path(app.confdir)
    pyodide = runtime_files(root / "book/live/node_modules/pyodide")
    modules = {p.name: p.read_bytes() for p in (root / "book/live").glob("*.mjs")}
    modules["mathlib.zip"] = library_zip(root / "mathlib")
    modules["runtime.mjs"] = (f"export const pyodide = new URL('../{folder_of('pyodide', pyodide)}/', import.meta.url);\n"
                              "export const library = new URL('mathlib.zip', import.meta.url);\n").encode()
    config.livebook_folder = folder_of("live", modules)
    app.livebook_files = {folder_of("pyodide", pyodide): pyodide, config.livebook_folder: modules}


def ship(app: Sphinx) -> None:
    """Write the folders into _static, and remove the ones an earlier build left."""
    static = Path(app.outdir) / "_static"
    for old in [*static.glob("pyodide-*"), *static.glob("live-*")]:
        if old.name not in app.livebook_files:
            shutil.rmtree(old)
    for folder, files in app.livebook_files.items():
        if not (static / folder).exists():
            (static / folder).mkdir(parents=True)
            for file, content in files.items():
                (static / folder / file).write_bytes(content)


def add_script(app: Sphinx, pagename: str, templatename: str, context: dict, doctree: object) -> None:
    """Only pages that hold an experiment or a question load anything."""
    body = context.get("body") or ""
    if 'class="mlx"' in body or 'class="mlx-predict"' in body:
        app.add_js_file(f"{app.config.livebook_folder}/live.mjs", type="module")


def drop_thebe(app: Sphinx, config: object) -> None:
    """Jupyter Book 1 loads sphinx-thebe on every page, which names a third party and breaks a script."""
    for event, listeners in app.events.listeners.items():
        app.events.listeners[event] = [
            x for x in listeners if (getattr(x.handler, "__module__", ""), getattr(x.handler, "__name__", "")) not in
            {("sphinx_thebe", "init_thebe_core"), ("sphinx_thebe", "update_thebe_context")}]


def setup(app: Sphinx) -> dict:
    app.add_config_value("livebook_folder", "", "html")
    app.connect("config-inited", drop_thebe, priority=1)
    app.connect("config-inited", gather)
    app.connect("builder-inited", ship)
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
