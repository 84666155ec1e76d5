// The page's side of the worker: started by the first call, shared by every experiment of the page.
// A start that fails takes its worker along, so that the next call begins anew.
export const limits = { silence: 60_000 }; // milliseconds without a byte or an answer until a call counts as failed

let worker;
let since; // when Python began to compute what is asked for, or could have
let watch;
let number = 0;
let never = typeof WebAssembly === 'object' ? '' : 'this browser has no WebAssembly'; // why no start can succeed
const waiting = new Map();

function fail(message, how = {}) {
  clearTimeout(watch);
  worker?.terminate();
  worker = undefined;
  const calls = [...waiting.values()];
  waiting.clear();
  for (const { reject } of calls) reject(Object.assign(new Error(message), how));
}

function listen() {
  clearTimeout(watch);
  if (waiting.size) watch = setTimeout(() => fail(`nothing came for ${Math.round(limits.silence / 1000)} seconds`), limits.silence);
}

function hear({ broken, final, ready, got, total, number: which, share, words, html, error }) {
  if (ready) since = performance.now();
  if (final) never = broken;
  if (broken !== undefined) return fail(broken, { final });
  if (got !== undefined) for (const { progress } of waiting.values()) progress?.(got, total);
  const call = waiting.get(which);
  if (share === undefined) waiting.delete(which);
  listen();
  if (share !== undefined) return call?.far?.(share, words);
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
  since = undefined;
}

// Python begins to start and to import what an experiment needs, for whoever will ask; the first call says what goes wrong.
export function warm(id) {
  if (worker || never) return;
  start();
  worker.postMessage({ needed: id });
}

// Milliseconds that Python has computed the answer to a call; a start does not count.
export const computing = () => (since === undefined || !waiting.size ? 0 : performance.now() - since);

// Python cannot be told to stop while it computes: it ends, and the next call starts another from files that are here.
export function stop() {
  fail('it was stopped', { stopped: true });
}

// Why Python cannot run here at all, as far as that is known.
export const why_never = () => never;

// `progress` hears of bytes that come, `far` how far a long search is.
export function run(id, values, progress, far) {
  if (never) return Promise.reject(Object.assign(new Error(never), { final: true }));
  if (!worker) start();
  if (since !== undefined && !waiting.size) since = performance.now();
  return new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject, progress, far });
    listen();
    worker.postMessage({ number, id, values });
  });
}
