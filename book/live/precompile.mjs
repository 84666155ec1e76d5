// At build time: Python's standard library and this one, compiled by the very Python that will run them in the browser.
// Most of its starting time is compiling sources, so byte code is shipped (3x quicker); and of both libraries only what
// another Python loads that starts as the page's does and runs every experiment.
// Usage: node precompile.mjs <pyodide folder> <library.zip> <output folder>
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { unpack } from './unpack.mjs';

const [runtime, library, out] = process.argv.slice(2).map((p) => path.resolve(p));
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, 'pyodide.mjs')).href);
const LOADED = `
import importlib, sys
for experiment in experiments.registry().values():
    experiment.run()
for name in late:
    if name.partition(".")[0] in {"mathlib", *sys.stdlib_module_names}:
        importlib.import_module(name)
homes = {id: experiment.draw.__module__ for id, experiment in experiments.registry().items()}
origins = {name: getattr(module.__spec__, "origin", None) for name, module in sys.modules.items()}
names = [name for name, origin in origins.items() if origin not in ("built-in", "frozen")]
[names, homes]
`;

// What the page's Python has loaded when every experiment has run, and one call has failed and said why.
async function loaded(files, late) {
  const python = await loadPyodide();
  unpack(python.FS, files, '/library');
  python.pyimport('sys').path.append('/library');
  const experiments = python.pyimport('mathlib.show.experiments');
  try { experiments.run_json('none', '{}'); } catch { /* as it should */ }
  const globals = python.toPy({ late });
  globals.set("experiments", experiments);
  return python.runPython(LOADED, { globals }).toJs({ dict_converter: Object.fromEntries });
}

const compiler = await loadPyodide({ env: { PYTHONNODEBUGRANGES: '1' } }); // columns of the source, for tracebacks only, are a fifth
compiler.FS.writeFile('/stdlib.zip', fs.readFileSync(path.join(runtime, 'python_stdlib.zip')));
compiler.FS.writeFile('/mathlib.zip', fs.readFileSync(library));
compiler.runPython(fs.readFileSync(fileURLToPath(new URL('precompile.py', import.meta.url)), 'utf8'));
const call = (name, ...given) => compiler.globals.get(name)(...given).toJs();
try {
  const [modules, homes] = await loaded(call('library', '/mathlib.zip', undefined), call('late_imports', '/mathlib.zip'));
  const names = compiler.toPy(modules);
  fs.mkdirSync(out, { recursive: true });
  fs.writeFileSync(path.join(out, 'python_stdlib.zip'), call('stdlib', '/stdlib.zip', names));
  fs.writeFileSync(path.join(out, 'mathlib.files'), call('library', '/mathlib.zip', names));
  fs.writeFileSync(path.join(out, 'homes.json'), JSON.stringify(homes));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
