// At build time: Python's standard library and this one, compiled by the very Python that will run them in the browser.
// Most of its starting time is compiling sources, so byte code is shipped (3x quicker); and of both libraries only what
// another Python loads that starts as the page's does and runs every experiment. What the workshop and cells load beyond that
// comes apart.
// Usage: node precompile.mjs <pyodide folder> <library.zip> <workshop.zip> <cells.zip> <output folder> <names that cells import>
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { buildSync } from 'esbuild';
import { unpack } from './unpack.mjs';

const [runtime, library, workshop, cells, out] = process.argv.slice(2, 7).map((p) => path.resolve(p));
const asked = JSON.parse(process.argv[7]);
const { loadPyodide } = await import(pathToFileURL(path.join(runtime, 'pyodide.mjs')).href);
const LOADED = `
import importlib, sys
for experiment in experiments.registry().values():
    experiment.run()
for name in late:
    if name.partition(".")[0] in {"mathlib", *sys.stdlib_module_names}:
        importlib.import_module(name)
homes = {id: experiment.draw.__module__ for id, experiment in experiments.registry().items()}
def names():
    origins = {name: getattr(module.__spec__, "origin", None) for name, module in sys.modules.items()}
    return [name for name, origin in origins.items() if origin not in ("built-in", "frozen")]
[names(), homes]
`;
const GRADED = `
from mathlib.workshop import grade, page
for puzzle in grade.every():
    for text in (puzzle.start, puzzle.solution, "x = 1 +", ""):
        page.answer(puzzle.name, text)
[name for name in names() if name not in loaded]
`;

const RUN = `
def load(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, one = name.rpartition(".")
        return getattr(load(module), one)
for name in asked:
    load(name)
from mathlib.show import cells
for program in ("print(1)", "x = 1 +", "1 / 0", "nothing", "import torch", "print.it"):
    cells.answer(f'["{program}"]', 0)
[name for name in names() if name not in loaded and not name.startswith("mathlib.workshop")]
`;

// What the page's Python has loaded when every experiment has run, and one call has failed and said why; what more it
// has when every puzzle has been graded; and what cells import, and need to say what is wrong.
async function loaded(files, graded, run, late) {
  const python = await loadPyodide();
  unpack(python.FS, files, '/library');
  python.pyimport('sys').path.append('/library');
  const experiments = python.pyimport('mathlib.show.experiments');
  try { experiments.run_json('none', '{}'); } catch { /* as it should */ }
  const globals = python.toPy({ late, asked });
  globals.set("experiments", experiments);
  const [names, homes] = python.runPython(LOADED, { globals }).toJs({ dict_converter: Object.fromEntries });
  globals.set('loaded', python.toPy(new Set(names)));
  const more = (archive, code) => {
    unpack(python.FS, archive, '/library');
    return python.runPython(code, { globals }).toJs();
  };
  return [names, homes, more(graded, GRADED), more(run, RUN)];
}

// A script with all that it imports as one, and the licences of that.
function bundle(name) {
  const here = path.dirname(fileURLToPath(import.meta.url));
  const outfile = path.join(out, name);
  const { metafile } = buildSync({
    absWorkingDir: here, entryPoints: [name], outfile, bundle: true, minify: true, format: 'esm', metafile: true,
  });
  const packages = Object.keys(metafile.inputs).map((file) => /^node_modules\/(@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  const licences = packages.filter(Boolean).map((folder) => fs.readFileSync(path.join(here, folder, 'LICENSE'), 'utf8'));
  fs.appendFileSync(outfile, `/*\n${[...new Set(licences)].join('\n')}*/\n`);
}

const compiler = await loadPyodide({ env: { PYTHONNODEBUGRANGES: '1' } }); // columns of the source, for tracebacks only, are a fifth
compiler.FS.writeFile('/stdlib.zip', fs.readFileSync(path.join(runtime, 'python_stdlib.zip')));
compiler.FS.writeFile('/mathlib.zip', fs.readFileSync(library));
compiler.FS.writeFile('/workshop.zip', fs.readFileSync(workshop));
compiler.FS.writeFile('/cells.zip', fs.readFileSync(cells));
compiler.runPython(fs.readFileSync(fileURLToPath(new URL('precompile.py', import.meta.url)), 'utf8'));
const call = (name, ...given) => compiler.globals.get(name)(...given).toJs();
try {
  const whole = ['/mathlib.zip', '/workshop.zip', '/cells.zip'].map((zip) => call('library', zip, undefined));
  const [modules, homes, graded, run] = await loaded(...whole, call('late_imports', '/mathlib.zip'));
  const foreign = graded.filter((name) => !name.startsWith('mathlib.workshop'));
  if (foreign.length) throw new Error(`the workshop needs what no experiment does: ${foreign}`);
  const names = compiler.toPy([...modules, ...run.filter((name) => !name.startsWith('mathlib'))]); // Python comes as one
  fs.mkdirSync(out, { recursive: true });
  fs.writeFileSync(path.join(out, 'python_stdlib.zip'), call('stdlib', '/stdlib.zip', names));
  fs.writeFileSync(path.join(out, 'mathlib.files'), call('library', '/mathlib.zip', names));
  fs.writeFileSync(path.join(out, 'workshop.files'), call('library', '/workshop.zip', compiler.toPy(graded)));
  fs.writeFileSync(path.join(out, 'cells.files'), call('library', '/cells.zip', compiler.toPy(run), '/mathlib.zip'));
  fs.writeFileSync(path.join(out, 'homes.json'), JSON.stringify(homes));
  bundle('editor.mjs');
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
