// An experiment on a page: the stored result stays until the reader moves a control, then Python draws it anew.
import { address, settings } from './address.mjs';
import { answer, foresee, shelf, stored } from './answers.mjs';
import { build } from './controls.mjs';
import { element, parsed } from './dom.mjs';
import { computing, run, stop, warm, why_never } from './python.mjs';
import { put } from './result.mjs';
import { download } from './runtime.mjs';

const QUIET = 700; // milliseconds without a move before the result is said, and its address written
const SLOW = 400; // milliseconds until a result that is still the old one says so
const PATIENCE = 1500; // milliseconds that a long search for old settings may still take when new ones wait
const REST = 150; // milliseconds that a mouse rests on a control before Python starts
const MAIN = 3; // settings that a phone shows at once, if the experiment does not say how many
const NAMED = 3; // folded settings above a result, of which as many are named
const NEAR = 3; // of these stay in sight of a picture that is higher than the window
const CONTROL = 'input, select, textarea'; // what a reader reaches for
for (const event of ['resize', 'beforeprint']) addEventListener(event, () => document.documentElement.classList.remove('mlx-playing'));
const million = (bytes) => (bytes / 1e6).toFixed(1);
const SIZE = `Python, ${million(download)} MB`;

// A mouse that rests on a control is about to move it, so Python starts; not where data are to be saved. Of a
// long experiment it starts when a control has the focus, too: a pasted text has no answer that came with the page.
function start_early(box, id, long) {
  let rest;
  const begin = () => { if (!navigator.connection?.saveData) warm(id); };
  const leave = () => clearTimeout(rest);
  box.addEventListener('pointerover', ({ pointerType, target }) => {
    leave();
    if (pointerType === 'mouse' && target.matches(CONTROL)) rest = setTimeout(begin, REST);
  });
  box.addEventListener('pointerleave', leave);
  if (long) box.addEventListener('focusin', ({ target }) => { if (target.matches(CONTROL)) begin(); });
}

// Settings beneath or above the result: the main ones first, the first few of them in sight of all of it; the others
// folded on a phone, and above a result everywhere, under a line that names them.
function panel(title, names, rows, main, above, again, link) {
  const box = element('div', { class: `mlx-controls${above ? ' mlx-above' : ''}`, role: 'group', 'aria-label': `Settings of the experiment: ${title}` });
  const set = (some, name = '') => box.append(element('div', { class: `mlx-set ${name}`.trim() }, ...some));
  const open = rows.length > main + 1 ? main : rows.length;
  const near = above ? open : Math.min(NEAR, open);
  set(rows.slice(0, near), above ? '' : 'mlx-held');
  if (open > near) set(rows.slice(near, open));
  if (rows.length > open) {
    const folded = names.slice(open);
    const some = above ? folded.slice(0, NAMED) : folded;
    const rest = folded.length > some.length ? ` and ${folded.length - some.length} more` : '';
    const more = element('details', { class: 'mlx-more' }, element('summary', {}, 'More settings', element('span', {}, `: ${some.join('; ')}${rest}`)),
      element('div', { class: 'mlx-set' }, ...rows.slice(open)));
    more.open = !above && matchMedia('(min-width: 601px)').matches;
    box.append(more);
  }
  box.append(element('div', { class: 'mlx-actions' }, again, link));
  return box;
}

export function enliven(root, position) {
  const { id, controls, main = MAIN, above, long } = JSON.parse(root.dataset.mlx);
  const defaults = Object.fromEntries(controls.map((c) => [c.name, c.default]));
  const title = root.querySelector('.mlx-title')?.textContent ?? id;
  const output = root.querySelector('.mlx-output');
  const status = element('p', { class: 'mlx-status', role: 'status' });
  const old = element('p', { class: 'mlx-old', role: 'status' });
  const bar = element('progress', { max: 1, value: 0, 'aria-label': 'Download of Python' });
  const loading = element('p', { class: 'mlx-loading' }, bar, element('span'));
  const spoken = element('p', { class: 'mlx-spoken', 'aria-live': 'polite' });
  const again = element('button', { type: 'button' }, 'Back to the start');
  const retry = element('button', { type: 'button' }, 'Try again');
  const link = element('a', { class: 'mlx-link' }, 'Link to these settings');
  let values = { ...defaults };
  let shown = { ...defaults };
  let before = shown; // what was shown before
  let running = false;
  let busy = false;
  let stale = false;
  let silence;
  let held; // the control that was reached for last
  let turn = 0;
  const halt = element('button', { type: 'button' }, 'Stop');
  const share = element('progress', { max: 1, value: 0, 'aria-label': 'Search' });
  const sofar = element('small', { 'aria-hidden': 'true' });

  const place = (wanted) => { for (const made of built) made.place(wanted[made.name]); };

  const settled = () => {
    clearTimeout(silence);
    silence = setTimeout(() => {
      spoken.textContent = output.querySelector('.mlx-say')?.textContent ?? '';
      link.href = address(id, built, shown, defaults, root.id);
      history.replaceState(history.state, '', link.href);
    }, QUIET);
  };

  // Beside the result, as long as it is not the answer to what is set.
  const aged = (words, ...more) => {
    old.replaceChildren(...(words ? [element('span', {}, words, ...more)] : []));
    root.toggleAttribute('data-old', Boolean(words));
  };

  const progress = (got, total) => {
    if (!loading.isConnected) status.after(loading);
    bar.value = got / total;
    const part = Math.floor((100 * got) / total);
    loading.lastChild.textContent = part < 100 ? `${million(got)} of ${million(total)} MB, ${part}%` : 'downloaded, starting';
  };

  // Without Python, what came with the page is still shown; other settings go back to those of the result that stays.
  async function give_up(error) {
    let wanted;
    let nodes;
    do {
      stale = false;
      wanted = { ...values };
      nodes = await stored(id, wanted);
    } while (stale);
    if (nodes) {
      if (JSON.stringify(wanted) !== JSON.stringify(shown)) draw(nodes);
      shown = wanted;
      settled();
    }
    values = { ...shown };
    place(shown);
    loading.remove();
    aged('');
    root.dataset.state = 'failed';
    const told = nodes ? 'This answer came with the page' : 'No answer to that came with the page, so the last one stays';
    status.textContent = `${told}. Python cannot run${error.final ? '' : ' now'}: ${error.message}. `;
    if (!error.final) status.append(retry);
    retry.onclick = () => {
      values = wanted;
      place(wanted);
      built[0].input.focus();
      update();
    };
  }

  const highest = new ResizeObserver(() => { output.style.minHeight = `${output.offsetHeight}px`; }); // what stands below does not jump
  const draw = (nodes) => {
    document.documentElement.classList.add('mlx-playing'); // what is out of sight rests, see experiments.css
    highest.observe(output);
    put(output, nodes);
    unfold(refused);
  };

  // Folded settings are shown when one of them is meant.
  const unfold = (meant) => {
    const more = box.querySelector('.mlx-more');
    if (more && controls.some((c, i) => more.contains(built[i].row) && meant(c))) more.open = true;
  };

  const refused = ({ label, name }) => {
    const words = output.querySelector('.mlx-refused')?.textContent ?? '';
    return words.includes(label) || words.includes(`${name} = `);
  };

  const far = (part, words) => {
    share.value = part;
    sofar.textContent = words;
  };

  // Until Python answers, what the build has computed stands there at once.
  async function meanwhile() {
    const asked = { ...values };
    const nodes = await stored(id, asked);
    if (root.dataset.state !== 'starting' || JSON.stringify(asked) !== JSON.stringify(values)) return;
    if (!nodes) {
      if (!running) aged(`Starting ${SIZE}: this is still the old result.`);
      return;
    }
    draw(nodes);
    shown = asked;
    aged('');
    status.textContent = `This answer came with the page; ${SIZE}, is starting for all others.`;
    settled();
  }

  // Python's own answer to what is set, or nothing if newer settings have stopped the search for it.
  async function compute(asked) {
    far(0, '');
    try {
      return parsed(await run(id, asked, progress, far));
    } catch (error) {
      if (!error.stopped || !stale) throw error;
      return undefined;
    }
  }

  const stopped = () => {
    values = { ...shown };
    place(shown);
    aged('');
    loading.remove();
    status.textContent = 'Stopped: the result above is that of the settings above. Python starts anew when you reach for a control.';
  };

  async function update() {
    stale = true;
    if (root.dataset.state !== 'live') {
      root.dataset.state = 'starting';
      meanwhile();
    }
    if (busy) {
      if (long && computing() > PATIENCE) stop();
      return;
    }
    busy = true;
    let slow;
    if (root.dataset.state === 'starting') status.textContent = '';
    try {
      while (stale) {
        stale = false;
        const asked = { ...values };
        if (running) slow ??= setTimeout(() => aged(`${long ? 'Searching' : 'Computing'}: this is still the old result.`, ...(long ? [share, sofar, halt] : [])), SLOW);
        const nodes = await (long || root.dataset.state === 'starting' ? compute(asked) : answer(id, asked, progress));
        if (!nodes || stale && root.dataset.state !== 'live') continue;
        draw(nodes);
        before = shown;
        shown = asked;
        clearTimeout(slow);
        slow = undefined;
        aged('');
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
      clearTimeout(slow);
      if (error.stopped) stopped();
      else await give_up(error);
    }
    busy = false;
    ahead();
  }

  // Where the reader could go next is computed while nothing else is.
  function ahead() {
    const mine = ++turn;
    if (held && !long && root.dataset.state === 'live') foresee(id, controls, held, { ...shown }, before, () => mine === turn && !busy);
  }

  const built = controls.map((control, i) => build(control, `mlx-${position}-${i}`, (value) => {
    held = control;
    values[control.name] = value;
    update();
  }));
  output.addEventListener('click', ({ target }) => {
    const [name, text] = target.closest('[data-set]')?.dataset.set.split(' ') ?? [];
    const made = built.find((one) => one.name === name);
    if (!made) return;
    values[name] = made.read(text);
    made.place(values[name]);
    update();
  });
  halt.addEventListener('click', () => {
    stale = false; // no newer settings are waited for
    stop();
  });
  again.addEventListener('click', () => {
    values = { ...defaults };
    place(values);
    if (root.dataset.state !== 'stored') update();
  });
  document.addEventListener('mlx-live', () => {
    running = true;
    if (root.dataset.state === 'stored') status.textContent = 'Python is running: move a control.';
  });
  addEventListener('resize', () => { output.style.minHeight = ''; });

  put(output);
  root.id ||= `experiment-${id}`;
  link.href = `#${root.id}`;
  root.dataset.state = 'stored';
  status.textContent = why_never() ? `Python cannot run: ${why_never()}. Answers to one moved control came with the page.`
    : `Live: ${SIZE}, starts when you reach for a control.`;
  root.querySelector('.mlx-controls').remove();
  const box = panel(title, controls.map((c) => c.label), built.map((made) => made.row), main, above, again, link);
  start_early(box, id, long);
  box.addEventListener('pointerdown', () => shelf(id)); // on its way before the hand moves
  const reached = ({ target }) => {
    const control = controls[built.findIndex(({ row }) => row.contains(target))];
    if (control === held) return;
    held = control;
    if (!busy) ahead();
  };
  box.addEventListener('pointerover', reached);
  box.addEventListener('focusin', reached);
  if (above) output.before(box, status, spoken, old);
  else output.after(box, status, spoken);
  box.querySelector('.mlx-held')?.append(old); // in sight, too
  values = settings(id, built, defaults);
  if (controls.some((c) => values[c.name] !== c.default)) {
    place(values);
    unfold((c) => values[c.name] !== c.default && !output.querySelector(`[data-set^="${c.name} "]`)); // no row of a table shows it
    update();
  }
  if (location.hash.split('&')[0] === `#${root.id}`) root.scrollIntoView();
}
