// Python in a worker: loads the runtime and the library once, then answers one request after the other.
import { pyodide, library } from './runtime.mjs';

let run;

async function start() {
  const { loadPyodide } = await import(new URL('pyodide.mjs', pyodide).href);
  const archive = fetch(library).then((answer) => {
    if (!answer.ok) throw new Error(`${library}: ${answer.status}`);
    return answer.arrayBuffer();
  });
  const python = await loadPyodide({ indexURL: pyodide.href });
  python.unpackArchive(await archive, 'zip', { extractDir: '/library' });
  python.pyimport('sys').path.append('/library');
  run = python.pyimport('mathlib.show.experiments').run_json;
}

const started = start();

self.onmessage = async ({ data: { number, id, values } }) => {
  try {
    await started;
    self.postMessage({ number, html: run(id, JSON.stringify(values)) });
  } catch (error) {
    self.postMessage({ number, failed: !run, error: String(error).trim().split('\n').pop() });
  }
};
