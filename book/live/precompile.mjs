// At build time: Python's standard library and this one, compiled by the very Python that will run them in the browser.
// Most of its starting time is compiling sources; what a start imports is therefore shipped as byte code (3x quicker).
// Usage: node precompile.mjs <pyodide folder> <library.zip> <output folder>
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [runtime, library, out] = process.argv.slice(2).map((p) => path.resolve(p));
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, 'pyodide.mjs')).href);
const python = await loadPyodide();
python.FS.writeFile('/stdlib.zip', fs.readFileSync(path.join(runtime, 'python_stdlib.zip')));
python.FS.writeFile('/mathlib.zip', fs.readFileSync(library));
python.runPython(`
import importlib.util, sys, zipfile
from importlib._bootstrap_external import _code_to_hash_pyc

def module_of(name):
    return name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")

def rewrite(source, target, compiled):
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith(".py") and compiled(module_of(name)):
                code = compile(data, name, "exec", dont_inherit=True)
                data, name = bytes(_code_to_hash_pyc(code, importlib.util.source_hash(data), False)), name + "c"
            new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)

sys.path.append("/mathlib.zip")
from mathlib.show.experiments import registry
for experiment in registry().values():
    experiment.run()
loaded = set(sys.modules)
rewrite("/stdlib.zip", "/stdlib.compiled.zip", loaded.__contains__)
rewrite("/mathlib.zip", "/mathlib.compiled.zip", lambda name: True)
`);
fs.mkdirSync(out, { recursive: true });
fs.writeFileSync(path.join(out, 'python_stdlib.zip'), python.FS.readFile('/stdlib.compiled.zip'));
fs.writeFileSync(path.join(out, 'mathlib.zip'), python.FS.readFile('/mathlib.compiled.zip'));
