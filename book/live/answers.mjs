// Answers at hand: those that came with the site, those that Python has given, and those that the next move will ask for.
import { parsed } from './dom.mjs';
import { run } from './python.mjs';
import { answers } from './runtime.mjs';

const ROOM = 200; // answers that are kept, of all experiments of the page
const NEAR = 24; // values of a control that are computed ahead
const kept = new Map();
const shelves = new Map();

// What the build has computed of an experiment: one control moved, the others where the page has them.
export function shelf(id) {
  if (!shelves.has(id)) {
    const packed = fetch(`${answers}${id}.packed`).then(({ ok, body }) => ok && new Response(body.pipeThrough(new DecompressionStream('gzip'))).json());
    shelves.set(id, packed.then((found) => found || {}).catch(() => {
      shelves.delete(id); // the next touch asks again
      return {};
    }));
  }
  return shelves.get(id);
}

const on_shelf = async (id, values) => (await shelf(id))[JSON.stringify(values)];

// The nodes of an answer that needs no Python, if there is one.
export async function stored(id, values) {
  const html = await on_shelf(id, values);
  return html && parsed(html);
}

// The nodes of an answer; who puts them into the page takes a copy.
function made(id, values, progress) {
  const key = `${id} ${JSON.stringify(values)}`;
  const nodes = kept.get(key) ?? on_shelf(id, values).then((html) => html ?? run(id, values, progress)).then(parsed);
  kept.delete(key);
  kept.set(key, nodes); // the newest stands last
  if (kept.size > ROOM) kept.delete(kept.keys().next().value);
  nodes.catch(() => kept.delete(key));
  return nodes;
}

export const answer = async (id, values, progress) => (await made(id, values, progress)).cloneNode(true);

// What a control can be set to, the nearest first.
function nearest({ kind, low, high, step, options, name }, values) {
  const all = {
    range: () => Array.from({ length: 1 + Math.round((high - low) / step) }, (_, i) => low + i * step),
    slider: () => options.map(([, value]) => value),
    menu: () => options.map(([, value]) => value),
    toggle: () => [false, true],
  }[kind]?.() ?? [];
  const here = all.indexOf(values[name]);
  const places = [...all.keys()].sort((a, b) => Math.abs(a - here) - Math.abs(b - here));
  return places.slice(0, NEAR).map((i) => all[i]);
}

// One after the other, so that what the reader asks for waits for one at most; `goes_on` says whether it still makes sense.
export async function foresee(id, control, values, goes_on) {
  for (const value of nearest(control, values)) {
    await new Promise((next) => setTimeout(next)); // what the reader does comes first
    if (!goes_on()) return;
    await made(id, { ...values, [control.name]: value }).catch(() => {}); // whoever asks for it hears why
  }
}
