// Answers at hand: those that came with the site, those that Python has given, and those that the next move will ask for.
import { parsed } from './dom.mjs';
import { run } from './python.mjs';
import { answers } from './runtime.mjs';

const ROOM = 8e6; // characters of answers that are kept, of all experiments of the page
const AHEAD = 96; // settings that are computed ahead of one move, in at most half of the room
const kept = new Map();
const shelves = new Map();

// What the build has computed of an experiment: one control moved, the others where the page has them. Each page stands
// there once, and settings have its place.
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

async function on_shelf(id, values) {
  const { pages, places } = await shelf(id);
  return pages?.[places[JSON.stringify(values)]];
}

// The nodes of an answer that needs no Python, if there is one.
export async function stored(id, values) {
  const html = await on_shelf(id, values);
  return html && parsed(html);
}

const named = (id, values) => `${id} ${JSON.stringify(values)}`;

// An answer and its nodes; who puts them into the page takes a copy.
function made(id, values, progress) {
  const key = named(id, values);
  const one = kept.get(key) ?? { size: 0 };
  one.nodes ??= on_shelf(id, values).then((html) => html ?? run(id, values, progress)).then((html) => {
    one.size = html.length;
    return parsed(html);
  });
  kept.delete(key);
  kept.set(key, one); // the newest stands last
  let size = [...kept.values()].reduce((sum, each) => sum + each.size, 0);
  for (const [old, each] of kept) {
    if (size <= ROOM) break;
    kept.delete(old);
    size -= each.size;
  }
  one.nodes.catch(() => kept.delete(key));
  return one;
}

export const answer = async (id, values, progress) => (await made(id, values, progress).nodes).cloneNode(true);

// What a control can be set to, in order.
function offers({ kind, low, high, step, options }) {
  return {
    range: () => Array.from({ length: 1 + Math.round((high - low) / step) }, (_, i) => low + i * step),
    slider: () => options.map(([, value]) => value),
    menu: () => options.map(([, value]) => value),
    toggle: () => [false, true],
  }[kind]?.() ?? [];
}

// Where the next move may lead from `values`, the likeliest first: a hand goes on in its direction, to what is near, with the
// control that it holds.
function likely(controls, held, values, before) {
  const found = [];
  for (const control of controls) {
    const { name } = control;
    const all = offers(control);
    const [here, there] = [all.indexOf(values[name]), all.indexOf(before[name])];
    for (const [i, value] of all.entries()) {
      const back = (i - here) * (here - there) < 0;
      const far = Math.abs(i - here) * (back ? 3 : 1) * (control === held ? 1 : 4);
      if (i !== here) found.push({ far, settings: { ...values, [name]: value } });
    }
  }
  return found.sort((a, b) => a.far - b.far).slice(0, AHEAD).map(({ settings }) => settings);
}

// One after the other, so that what the reader asks for waits for one at most; `goes_on` says whether it still makes sense.
export async function foresee(id, controls, held, values, before, goes_on) {
  let size = 0;
  for (const settings of likely(controls, held, values, before)) {
    if (!kept.get(named(id, settings))?.size) await new Promise((next) => setTimeout(next)); // what the reader does comes first
    if (!goes_on()) return;
    const one = made(id, settings);
    if (!one.size) await one.nodes.catch(() => {}); // whoever asks for it hears why
    size += one.size;
    if (size > ROOM / 2) return;
  }
}
