// Answers at hand: those that Python has given, and those that the next move of a control will ask for, computed ahead.
import { parsed } from './dom.mjs';
import { run } from './python.mjs';

const ROOM = 200; // answers that are kept, of all experiments of the page
const NEAR = 24; // values of a control that are computed ahead
const kept = new Map();

// The nodes of an answer; who puts them into the page takes a copy.
function made(id, values, progress) {
  const key = `${id} ${JSON.stringify(values)}`;
  const nodes = kept.get(key) ?? run(id, values, progress).then(parsed);
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
    if (!goes_on()) return;
    await made(id, { ...values, [control.name]: value }).catch(() => {}); // whoever asks for it hears why
  }
}
