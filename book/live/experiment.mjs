// An experiment on a page: the stored result stays until the reader touches a control, then Python draws it anew.
import { build } from './controls.mjs';
import { element, insert } from './dom.mjs';
import { run } from './python.mjs';

const QUIET = 700; // milliseconds without a move before the result is said to a screen reader

export function enliven(root, position) {
  const { id, controls } = JSON.parse(root.dataset.mlx);
  const defaults = Object.fromEntries(controls.map((c) => [c.name, c.default]));
  const output = root.querySelector('.mlx-output');
  const status = element('p', { class: 'mlx-status', role: 'status' });
  const spoken = element('p', { class: 'mlx-spoken', 'aria-live': 'polite' });
  const again = element('button', { type: 'button' }, 'Back to the start');
  const box = element('div', { class: 'mlx-controls', role: 'group', 'aria-label': 'Settings' });
  let values = { ...defaults };
  let busy = false;
  let stale = false;
  let silence;

  const say = () => {
    clearTimeout(silence);
    silence = setTimeout(() => { spoken.textContent = output.querySelector('.mlx-say')?.textContent ?? ''; }, QUIET);
  };

  const give_up = (error) => {
    values = { ...defaults };
    for (const made of built) { made.reset(); made.input.disabled = true; }
    again.disabled = true;
    root.dataset.state = 'failed';
    status.textContent = `Python cannot run in this browser (${error.message}). The stored result stays.`;
  };

  async function update() {
    stale = true;
    if (busy) return;
    busy = true;
    try {
      while (stale) {
        stale = false;
        const html = await run(id, values);
        if (!stale || root.dataset.state === 'live') insert(output, html);
      }
      if (root.dataset.state !== 'live') status.textContent = 'Live: this page is now running the library itself.';
      root.dataset.state = 'live';
      root.dataset.runs = 1 + +(root.dataset.runs ?? 0);
      say();
    } catch (error) {
      give_up(error);
    }
    busy = false;
  }

  function wake() {
    if (root.dataset.state !== 'stored') return;
    root.dataset.state = 'starting';
    status.textContent = 'Starting Python in your browser; the picture is the stored one until then.';
    update();
  }

  const built = controls.map((control, i) => build(control, `mlx-${position}-${i}`, (value) => {
    values[control.name] = value;
    wake();
    update();
  }));
  again.addEventListener('click', () => {
    values = { ...defaults };
    for (const made of built) made.reset();
    update();
  });
  for (const touch of ['pointerdown', 'focusin', 'keydown']) box.addEventListener(touch, wake);
  box.append(...built.map((made) => made.row), again);
  root.dataset.state = 'stored';
  root.querySelector('.mlx-controls').replaceWith(box);
  output.after(status, spoken);
}
