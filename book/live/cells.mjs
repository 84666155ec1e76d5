// A chapter's cell that runs where it stands: an editor in place of its listing, and what Python answers in place of its
// stored output. Python finds out which cells above it needs, and takes them as they are now.
import { asking } from './asking.mjs';
import { element, parsed } from './dom.mjs';
import { put } from './result.mjs';

const WORDS = 300; // of an output that is read out

const edited = new Map(); // code by the cell's place, as the reader has it
const number = (place) => +place.id.slice('cell-'.length);

// The code of every cell of the page, by its place.
function sources() {
  const found = [];
  for (const one of document.querySelectorAll('.cell_input[id^="cell-"]')) {
    found[number(one)] = edited.get(number(one)) ?? one.querySelector('pre').textContent;
  }
  return Array.from(found, (code) => code ?? '');
}

export async function open(place, button) {
  const at = number(place);
  const listing = place.firstElementChild;
  const start = listing.querySelector('pre').textContent.trimEnd();
  const stored = place.parentElement.querySelector(':scope > .cell_output');
  const output = element('div', { class: 'cell_output', role: 'region', 'aria-label': 'What the cell shows now', tabindex: '-1' });
  const { box, keys, begin, halt, again, status, spoken, say, ask } = asking(place, 'cells', at, 'The notebook runs it.');

  async function go() {
    if (begin.disabled) return;
    const html = await ask({ sources: JSON.stringify(sources()), at });
    if (html === undefined) return;
    put(output, parsed(html));
    if (stored?.isConnected) stored.replaceWith(output);
    else if (!output.isConnected) place.after(output);
    spoken.textContent = output.textContent.slice(0, WORDS) || 'It ran and shows nothing.';
    if (!html) say('It ran and shows nothing.');
    place.dataset.runs = 1 + +(place.dataset.runs ?? 0);
  }

  const { edit } = await import('./editor.mjs');
  const editor = edit(box, {
    text: edited.get(at) ?? start,
    label: 'Code of this cell',
    described: keys.id,
    numbered: false,
    run: go,
    changed: (words) => edited.set(at, words),
  });
  begin.addEventListener('click', go);
  again.addEventListener('click', () => {
    editor.put(start);
    edited.delete(at);
    if (stored) output.replaceWith(stored);
    else output.remove();
    say('This is the stored cell again; Ctrl+Z in the editor brings back what was there.');
  });
  place.classList.add('mlx-open');
  listing.hidden = true;
  listing.after(box, keys, element('div', { class: 'mlx-actions' }, begin, halt, again), status, spoken);
  if (matchMedia('(hover: hover)').matches) editor.focus(); // a phone would open its keyboard
  button.remove();
  place.dataset.ready = 'true';
  await go();
}
