// The page of the workshop: a puzzle that is opened gets an editor, and Python grades what is written there.
import { asking } from './asking.mjs';
import { element, parsed } from './dom.mjs';
import { put } from './result.mjs';

const place = (name) => `mlx-workshop.${name}`;

// What a reader has written and solved; a browser that keeps nothing forgets it with the page.
const kept = (name) => {
  try {
    return JSON.parse(localStorage.getItem(place(name))) ?? {};
  } catch {
    return {};
  }
};
const keep = (name, news) => {
  try {
    localStorage.setItem(place(name), JSON.stringify({ ...kept(name), ...news }));
  } catch { /* then it lives as long as the page */ }
};

const puzzles = [...document.querySelectorAll('.mlx-puzzle')];

// How far the reader is, on top of the page and beside each title.
function progress() {
  const solved = puzzles.filter((one) => one.dataset.solved);
  for (const one of solved) one.querySelector('.mlx-mark').textContent = '✓ solved';
  document.querySelector('.mlx-progress').textContent = `${solved.length} of ${puzzles.length} solved.`;
}

function enliven(root) {
  const { puzzle: name } = root.dataset;
  const title = root.querySelector('b').textContent;
  const program = root.querySelector('pre[data-file]'); // hidden, it still holds what is saved as a file
  const start = program.textContent;
  const output = element('div', { class: 'mlx-output', role: 'region', 'aria-label': `What became of ${title}`, tabindex: '-1' });
  let editor;
  const instead = `\`mathlib grade ${name} ${program.dataset.file}\` does the same.`;
  const { box, keys, begin, halt, again, status, spoken, say, ask } = asking(root, 'workshop', name, instead);

  async function grade() {
    if (begin.disabled) return undefined;
    const html = await ask({ puzzle: name, program: program.textContent });
    if (html === undefined) return output.replaceChildren();
    put(output, parsed(html));
    spoken.textContent = output.querySelector('.mlx-say').textContent; // the verdict; it is seen in the result
    root.dataset.runs = 1 + +(root.dataset.runs ?? 0);
    if (output.firstChild.dataset.right !== 'true') return undefined;
    root.dataset.solved = 'true';
    keep(name, { solved: true });
    return progress();
  }

  async function open() {
    root.removeEventListener('toggle', open);
    begin.addEventListener('click', grade);
    put(root); // the button that saves
    const save = program.nextElementSibling;
    save.remove();
    program.after(box, keys, element('div', { class: 'mlx-actions' }, begin, halt, again, save), status, spoken, output);
    try {
      const { edit } = await import('./editor.mjs');
      const text = kept(name).text ?? start;
      program.textContent = text;
      editor = edit(box, {
        text,
        label: `Program for ${title}`,
        described: keys.id,
        run: grade,
        changed: (words) => {
          program.textContent = words;
          keep(name, { text: words });
        },
      });
      program.hidden = true;
    } catch {
      say('The editor did not come; save the program and use your own.');
    }
    again.addEventListener('click', () => {
      editor?.put(start);
      output.replaceChildren();
      say('This is the start again; Ctrl+Z in the editor brings back what was there.');
    });
    root.dataset.ready = 'true';
  }

  if (kept(name).solved) root.dataset.solved = 'true';
  root.querySelector('summary').append(element('span', { class: 'mlx-mark' }));
  if (root.open) open();
  else root.addEventListener('toggle', open);
}

// A link to a puzzle opens it.
const linked = () => {
  const one = document.getElementById(location.hash.slice(1));
  if (!one?.matches('.mlx-puzzle')) return;
  one.open = true;
  one.scrollIntoView();
};

puzzles.forEach(enliven);
progress();
linked();
addEventListener('hashchange', linked);
