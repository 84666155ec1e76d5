// The page's side of the worker: started by the first call, shared by every experiment of the page.
const LIMIT = 60_000; // milliseconds until a start counts as failed

let worker;
let number = 0;
const waiting = new Map();

function start() {
  worker = new Worker(new URL('worker.mjs', import.meta.url), { type: 'module' });
  worker.onmessage = ({ data }) => {
    const { resolve, reject, timer } = waiting.get(data.number);
    waiting.delete(data.number);
    clearTimeout(timer);
    if (data.html === undefined) reject(new Error(data.error));
    else resolve(data.html);
  };
  worker.onerror = (event) => {
    for (const { reject } of waiting.values()) reject(new Error(event.message || 'the worker could not start'));
    waiting.clear();
  };
}

export function run(id, values) {
  if (typeof WebAssembly !== 'object') return Promise.reject(new Error('WebAssembly is blocked'));
  if (!worker) start();
  return new Promise((resolve, reject) => {
    const mine = ++number;
    const timer = setTimeout(() => {
      waiting.delete(mine);
      reject(new Error('no answer within a minute'));
    }, LIMIT);
    waiting.set(mine, { resolve, reject, timer });
    worker.postMessage({ number: mine, id, values });
  });
}
