// At build time: Python's standard library and this one, compiled by the very Python that will run them in the browser.
// Most of its starting time is compiling sources, so byte code is shipped (3x quicker); and of the standard library
// only what the runtime and this library import, a third of it.
// Usage: node precompile.mjs <pyodide folder> <library.zip> <output folder>
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [runtime, library, out] = process.argv.slice(2).map((p) => path.resolve(p));
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, 'pyodide.mjs')).href);
const python = await loadPyodide();
python.FS.writeFile('/stdlib.zip', fs.readFileSync(path.join(runtime, 'python_stdlib.zip')));
python.FS.writeFile('/mathlib.zip', fs.readFileSync(library));
const PROGRAM = `
import ast, importlib, importlib.util, pathlib, sys, zipfile
from importlib._bootstrap_external import _code_to_hash_pyc

ALSO = {"encodings.ascii", "encodings.latin_1", "encodings.idna", "stringprep"}  # asked for by name

def module_of(name):
    return name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

def rewrite(source, target, wanted):
    # not compressed here: the build packs the whole, and Python starts faster
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in sorted(old.namelist()):
            if name.endswith("/") or not wanted(module_of(name)):
                continue
            data = old.read(name)
            if name.endswith(".py"):
                code = compile(data, name, "exec", dont_inherit=True, optimize=2)
                data, name = bytes(_code_to_hash_pyc(code, importlib.util.source_hash(data), False)), name + "c"
            new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)

def imported_somewhere(folder):
    # imports inside functions too, which no run at build time may reach
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield node.module

before = set(sys.modules)
sys.path.append("/library")
from mathlib.show.experiments import registry
for experiment in registry().values():
    experiment.run()
for name in sorted(set(imported_somewhere(pathlib.Path("/library/mathlib")))):
    if name.partition(".")[0] in sys.stdlib_module_names:
        importlib.import_module(name)
needed = set(sys.modules) | ALSO
rewrite("/stdlib.zip", "/stdlib.compiled.zip", needed.__contains__)
rewrite("/mathlib.zip", "/mathlib.compiled.zip", lambda name: True)
`;
python.unpackArchive(new Uint8Array(fs.readFileSync(library)), 'zip', { extractDir: '/library' }); // as the page does
try {
  python.runPython(PROGRAM);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
fs.mkdirSync(out, { recursive: true });
fs.writeFileSync(path.join(out, 'python_stdlib.zip'), python.FS.readFile('/stdlib.compiled.zip'));
fs.writeFileSync(path.join(out, 'mathlib.zip'), python.FS.readFile('/mathlib.compiled.zip'));
