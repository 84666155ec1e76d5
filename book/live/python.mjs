// The page's side of the worker: started by the first call, shared by every experiment of the page.
// A start that fails takes its worker along, so that the next call begins anew.
export const limits = { silence: 60_000 }; // milliseconds without a byte or an answer until a call counts as failed

let worker;
let watch;
let number = 0;
const waiting = new Map();

function fail(message) {
  clearTimeout(watch);
  worker?.terminate();
  worker = undefined;
  const calls = [...waiting.values()];
  waiting.clear();
  for (const { reject } of calls) reject(new Error(message));
}

function listen() {
  clearTimeout(watch);
  if (waiting.size) watch = setTimeout(() => fail(`nothing came for ${Math.round(limits.silence / 1000)} seconds`), limits.silence);
}

function hear({ broken, got, total, number: which, html, error }) {
  if (broken !== undefined) return fail(broken);
  if (got !== undefined) for (const { progress } of waiting.values()) progress?.(got, total);
  const call = waiting.get(which);
  waiting.delete(which);
  listen();
  if (call && html === undefined) call.reject(new Error(error));
  else call?.resolve(html);
}

function start() {
  const mine = new Worker(new URL('worker.mjs', import.meta.url), { type: 'module' });
  mine.onmessage = ({ data }) => { if (mine === worker) hear(data); };
  mine.onerror = (event) => {
    event.preventDefault();
    if (mine === worker) fail(navigator.onLine ? 'its files did not come' : 'there is no connection');
  };
  worker = mine;
}

// Python begins to start, for whoever will ask; the first call says what goes wrong.
export function warm() {
  if (!worker && typeof WebAssembly === 'object') start();
}

export function run(id, values, progress) {
  if (typeof WebAssembly !== 'object') return Promise.reject(Object.assign(new Error('WebAssembly is blocked'), { final: true }));
  if (!worker) start();
  return new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject, progress });
    listen();
    worker.postMessage({ number, id, values });
  });
}
