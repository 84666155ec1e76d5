// An experiment on a page: the stored result stays until the reader moves a control, then Python draws it anew.
import { address, settings } from './address.mjs';
import { build } from './controls.mjs';
import { element, insert } from './dom.mjs';
import { run } from './python.mjs';
import { download } from './runtime.mjs';

const QUIET = 700; // milliseconds without a move before the result is said, and its address written
const MAIN = 3; // settings that a phone shows at once, if the experiment does not say how many
const million = (bytes) => (bytes / 1e6).toFixed(1);
const SIZE = `Python, ${million(download)} MB`;

// Settings beneath the result: the main ones first, on a phone the others folded.
function panel(title, rows, main, again, link) {
  const box = element('div', { class: 'mlx-controls', role: 'group', 'aria-label': `Settings of the experiment: ${title}` });
  box.append(...rows.slice(0, main));
  if (rows.length > main + 1) {
    const more = element('details', { class: 'mlx-more' }, element('summary', {}, 'More settings'), ...rows.slice(main));
    more.open = matchMedia('(min-width: 601px)').matches;
    box.append(more);
  } else box.append(...rows.slice(main));
  box.append(element('div', { class: 'mlx-actions' }, again, link));
  return box;
}

export function enliven(root, position) {
  const { id, controls, main = MAIN } = JSON.parse(root.dataset.mlx);
  const defaults = Object.fromEntries(controls.map((c) => [c.name, c.default]));
  const title = root.querySelector('.mlx-title')?.textContent ?? id;
  const output = root.querySelector('.mlx-output');
  const status = element('p', { class: 'mlx-status', role: 'status' });
  const bar = element('progress', { max: 1, value: 0, 'aria-label': 'Download of Python' });
  const loading = element('p', { class: 'mlx-loading' }, bar, element('span'));
  const spoken = element('p', { class: 'mlx-spoken', 'aria-live': 'polite' });
  const again = element('button', { type: 'button' }, 'Back to the start');
  const retry = element('button', { type: 'button' }, 'Try again');
  const link = element('a', { class: 'mlx-link' }, 'Link to these settings');
  let values = { ...defaults };
  let shown = { ...defaults };
  let busy = false;
  let stale = false;
  let silence;

  const place = (wanted) => { for (const made of built) made.place(wanted[made.name]); };

  const settled = () => {
    clearTimeout(silence);
    silence = setTimeout(() => {
      spoken.textContent = output.querySelector('.mlx-say')?.textContent ?? '';
      link.href = address(id, shown, defaults, root.id);
      history.replaceState(history.state, '', link.href);
    }, QUIET);
  };

  const progress = (got, total) => {
    if (!loading.isConnected) status.after(loading);
    bar.value = got / total;
    const part = Math.floor((100 * got) / total);
    loading.lastChild.textContent = part < 100 ? `${million(got)} of ${million(total)} MB, ${part}%` : 'downloaded, starting';
  };

  const give_up = (error) => {
    const wanted = values;
    values = { ...shown };
    place(shown);
    loading.remove();
    root.dataset.state = 'failed';
    status.textContent = `Python cannot run in this browser now: ${error.message}. The result above stays. `;
    if (error.final) for (const input of [...built.map((made) => made.input), again]) input.disabled = true;
    else status.append(retry);
    retry.onclick = () => {
      values = wanted;
      place(wanted);
      built[0].input.focus();
      update();
    };
  };

  const draw = (html) => {
    output.style.minHeight = `${output.offsetHeight}px`; // what stands below does not jump
    insert(output, html);
  };

  async function update() {
    stale = true;
    if (busy) return;
    busy = true;
    if (root.dataset.state !== 'live') {
      root.dataset.state = 'starting';
      status.textContent = `Starting ${SIZE}; the result is the stored one until then.`;
    }
    try {
      while (stale) {
        stale = false;
        const asked = { ...values };
        const html = await run(id, asked, progress);
        if (stale && root.dataset.state !== 'live') continue;
        draw(html);
        shown = asked;
      }
      if (root.dataset.state !== 'live') {
        loading.remove();
        status.textContent = 'Live: this page is now running the library itself.';
        document.dispatchEvent(new Event('mlx-live'));
      }
      root.dataset.state = 'live';
      root.dataset.runs = 1 + +(root.dataset.runs ?? 0);
      settled();
    } catch (error) {
      give_up(error);
    }
    busy = false;
  }

  const built = controls.map((control, i) => build(control, `mlx-${position}-${i}`, (value) => {
    values[control.name] = value;
    update();
  }));
  again.addEventListener('click', () => {
    values = { ...defaults };
    place(values);
    if (root.dataset.state !== 'stored') update();
  });
  document.addEventListener('mlx-live', () => {
    if (root.dataset.state === 'stored') status.textContent = 'Python is running: move a control.';
  });
  addEventListener('resize', () => { output.style.minHeight = ''; });

  root.id ||= `experiment-${id}`;
  link.href = `#${root.id}`;
  root.dataset.state = 'stored';
  status.textContent = `Live: ${SIZE}, starts when you move a control.`;
  root.querySelector('.mlx-controls').remove();
  output.after(panel(title, built.map((made) => made.row), main, again, link), status, spoken);
  values = settings(id, built, defaults);
  if (controls.some((c) => values[c.name] !== c.default)) {
    place(values);
    update();
  }
  if (location.hash === `#${root.id}`) root.scrollIntoView();
}
