// Python in a worker: fetches and unpacks the runtime and the library once, then answers one request after the other.
import { download, homes, packed, pyodide, scripts } from './runtime.mjs';
import { unpack } from './unpack.mjs';

const ROOMS = { workshop: 'mathlib.workshop.page', cells: 'mathlib.show.cells' }; // where each answers
const SMALLEST = new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]); // a WebAssembly module of nothing
const opened = {};
let python;
let run;
let load;
const brought = {};
let got = 0;
let lose;
const lost = new Promise((_, reject) => { lose = reject; });

const came = (bytes) => {
  got += bytes;
  self.postMessage({ got, total: download });
};

// Read as it comes, not as it is asked for: a file whose turn is later would stop on the way.
function counted(body) {
  const reader = body.getReader();
  return new ReadableStream({
    async pull(out) {
      try {
        const { done, value } = await reader.read();
        if (done) return out.close();
        came(value.byteLength);
        return out.enqueue(value);
      } catch (error) {
        lose(new Error('the connection broke'));
        throw error;
      }
    },
  }, { highWaterMark: Infinity });
}

async function open(name) {
  const answer = await fetch(packed[name].address).catch(() => { throw new Error('the connection broke'); });
  if (!answer.ok) throw new Error(`${name} is missing: the server answered ${answer.status}`);
  const content = counted(answer.body).pipeThrough(new DecompressionStream('gzip'));
  const type = name.endsWith('.wasm') ? 'application/wasm' : 'application/octet-stream';
  return new Response(content, { headers: { 'Content-Type': type } });
}

// The runtime asks for its files by name; it gets those that are on their way already.
const ask = self.fetch.bind(self);
self.fetch = (address, ...rest) => opened[String(address?.url ?? address).split('/').pop()] ?? ask(address, ...rest);

async function start() {
  await WebAssembly.compile(SMALLEST).catch(() => { throw Object.assign(new Error('WebAssembly is blocked by the policy of the site'), { final: true }); });
  for (const name of Object.keys(packed)) opened[name] = open(name);
  const library = opened['mathlib.files'].then((answer) => answer.arrayBuffer());
  library.catch(() => {}); // told below, by the same file
  const modules = Promise.all(['pyodide.mjs', 'pyodide.asm.mjs'].map((name) => import(new URL(name, pyodide).href)
    .catch(() => { throw new Error(`${name} did not come`); })));
  modules.then(() => came(scripts), () => {});
  const [[{ loadPyodide }]] = await Promise.all([modules, ...Object.values(opened)]);
  python = await loadPyodide({ indexURL: pyodide.href });
  unpack(python.FS, new Uint8Array(await library), '/library');
  python.pyimport('sys').path.append('/library');
  run = python.pyimport('mathlib.show.experiments').run_json;
  load = python.pyimport('importlib').import_module;
}

// What only the workshop or cells need comes with the first question to them.
async function bring(room) {
  const answer = await fetch(new URL(`${room}.packed`, import.meta.url)).catch(() => { throw new Error('the connection broke'); });
  if (!answer.ok) throw new Error(`what the ${room} needs is missing: the server answered ${answer.status}`);
  const files = await new Response(answer.body.pipeThrough(new DecompressionStream('gzip'))).arrayBuffer();
  unpack(python.FS, new Uint8Array(files), '/library');
  return load(ROOMS[room]).answer;
}

const words = (error) => String(error?.message ?? error).trim().split('\n').pop();
const started = Promise.race([start(), lost]);
started.then(() => self.postMessage({ ready: true }), (error) => self.postMessage({ broken: words(error), final: error.final }));

self.onmessage = async ({ data: { number, id, values, needed } }) => {
  try {
    await started;
  } catch {
    return; // said once, above
  }
  try {
    const room = needed ?? id;
    if (ROOMS[room]) {
      brought[room] ??= bring(room);
      brought[room].catch(() => { delete brought[room]; }); // the next question asks again
      const answer = await brought[room];
      return needed || self.postMessage({ number, html: answer(...Object.values(values)) });
    }
    if (needed) return void load(homes[needed]);
    const far = (share, words) => self.postMessage({ number, share, words });
    self.postMessage({ number, html: run(id, JSON.stringify(values), homes[id], far) });
  } catch (error) {
    self.postMessage({ number, error: words(error) });
  }
};
