// One labelled form control for each declared control; `change` is called with the new value.
// `place` shows a value, `read` finds the value that an address names (undefined if there is none such).
import { element } from './dom.mjs';

// A finger that only scrolls past begins on a slider like one that moves it. What it has done counts when it
// has gone sideways or is lifted, and is undone when the page begins to scroll.
function afterTouch(input, show, tell) {
  let touch;
  const settle = () => {
    const moved = touch && touch.value !== input.value;
    touch = undefined;
    if (moved) tell();
  };
  input.addEventListener('pointerdown', (event) => {
    if (event.pointerType === 'touch') touch = { value: input.value, x: event.clientX, y: event.clientY };
  });
  input.addEventListener('pointermove', (event) => {
    if (!touch) return;
    const [across, along] = [Math.abs(event.clientX - touch.x), Math.abs(event.clientY - touch.y)];
    if (across > 6 && across > along) settle();
  });
  input.addEventListener('pointerup', settle);
  input.addEventListener('pointercancel', () => {
    if (!touch) return;
    input.value = touch.value;
    touch = undefined;
    show();
  });
  input.addEventListener('input', () => { show(); if (!touch) tell(); });
}

// A value with its unit, as Python's Range.show has it.
function said(value, unit) {
  if (unit === '$') return `$${(+value).toFixed(2).replace('.00', '')}`;
  return unit === '%' ? `${value}%` : `${value} ${unit}`.trim();
}

function slider(control, id, change) {
  const steps = control.kind === 'slider' ? control.options : null;
  const shown = element('output', { for: id });
  const input = element('input', {
    id, type: 'range', autocomplete: 'off',
    min: steps ? 0 : control.low, max: steps ? steps.length - 1 : control.high, step: steps ? 1 : control.step,
  });
  const place = (value) => { input.value = steps ? steps.findIndex((s) => s[1] === value) : value; show(); };
  const show = () => {
    shown.textContent = steps ? steps[+input.value][0] : said(input.value, control.unit);
    input.setAttribute('aria-valuetext', shown.textContent);
  };
  const read = (text) => {
    if (steps) return chosen(steps, text);
    const value = text.trim() === '' ? NaN : +text;
    return value >= control.low && value <= control.high ? value : undefined;
  };
  afterTouch(input, show, () => change(steps ? steps[+input.value][1] : +input.value));
  return { input, shown, place, read };
}

const chosen = (options, text) => options.find(([, value]) => String(value) === text)?.[1];

function menu(control, id, change) {
  const options = control.options.map(([label], i) => element('option', { value: i }, label));
  const input = element('select', { id, autocomplete: 'off' }, ...options);
  const place = (value) => { input.selectedIndex = control.options.findIndex((o) => o[1] === value); };
  input.addEventListener('change', () => change(control.options[input.selectedIndex][1]));
  return { input, shown: '', place, read: (text) => chosen(control.options, text) };
}

function toggle(control, id, change) {
  const input = element('input', { id, type: 'checkbox', autocomplete: 'off' });
  const place = (value) => { input.checked = value; };
  input.addEventListener('change', () => change(input.checked));
  return { input, shown: '', place, read: (text) => ({ true: true, false: false })[text] };
}

const plain = (text) => text.toLowerCase().replace(/[^a-z0-9.]/g, '');
const pairs = (text) => new Set(Array.from(plain(text).slice(1), (letter, i) => plain(text)[i] + letter));

// Options that come near a text: those that have all of its words, else those that share most pairs of letters with it.
function near(options, text) {
  const words = text.toLowerCase().match(/[a-z]+|[0-9.]+/g) ?? [];
  const inside = options.filter(([label, value]) => words.every((word) => `${label} ${value}`.toLowerCase().includes(word)));
  if (inside.length) return inside.slice(0, 4);
  const asked = pairs(text);
  const alike = options.map((one) => {
    const own = pairs(one[0]);
    return [[...asked].filter((pair) => own.has(pair)).length / (asked.size + own.size || 1), one];
  });
  return alike.sort((a, b) => b[0] - a[0]).slice(0, 3).map(([, one]) => one);
}

// One of many names, which the browser's own list offers. A text that is none of them changes nothing and says what is near.
// The list shows what has the typed letters, so that the name gives way to them as soon as the field has the focus.
function named(control, id, change) {
  const list = element('datalist', { id: `${id}-all` }, ...control.options.map(([label]) => element('option', { value: label })));
  const note = element('span', { id: `${id}-near`, class: 'mlx-near', role: 'status' });
  const input = element('input', {
    id, type: 'text', list: list.id, 'aria-describedby': note.id, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
  });
  let here = '';
  const say = (words) => {
    note.textContent = words;
    input.setAttribute('aria-invalid', Boolean(words));
  };
  const place = (value) => {
    here = control.options.find((one) => one[1] === value)[0];
    input.value = here;
    input.placeholder = here;
    say('');
  };
  const settle = () => {
    const asked = plain(input.value);
    if (!asked) return place(control.options.find(([label]) => label === here)[1]);
    const found = control.options.find((one) => one.some((name) => plain(name) === asked));
    if (!found) return say(`No “${input.value}” here. Near it: ${near(control.options, input.value).map(([label]) => label).join('; ')}. The answer is still that of ${here}.`);
    const old = here;
    place(found[1]);
    if (old !== here) change(found[1]);
  };
  for (const event of ['focus', 'click']) input.addEventListener(event, () => { if (input.value === here) input.value = ''; });
  input.addEventListener('blur', () => { if (!input.value) input.value = here; });
  input.addEventListener('change', settle);
  input.addEventListener('input', ({ inputType }) => { if (!inputType || inputType === 'insertReplacementText') settle(); }); // chosen from the list
  return { input, shown: element('span', {}, list, note), place, read: (text) => chosen(control.options, text) };
}

// A line of a few letters: no other gets in, and the cursor stays where it was. A whole one counts when it is left.
function line(control, id, change) {
  const input = element('input', {
    id, type: 'text', maxlength: control.most, placeholder: control.hint ?? '', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
  });
  const clean = (text) => [...text].filter((letter) => control.letters.includes(letter)).join('').slice(0, control.most);
  const place = (value) => { input.value = value; };
  input.addEventListener('input', () => {
    const stays = clean(input.value);
    if (stays !== input.value) {
      const at = clean(input.value.slice(0, input.selectionStart)).length;
      input.value = stays;
      input.setSelectionRange(at, at);
    }
    if (!control.whole) change(stays);
  });
  if (control.whole) input.addEventListener('change', () => change(input.value));
  return { input, shown: '', place, read: (text) => (clean(text) === text ? text : undefined) };
}

// A pasted text; JSON loses the spaces that nobody reads, so that it fits into an address.
function text(control, id, change) {
  const input = element('textarea', {
    id, rows: 3, maxlength: control.most, placeholder: control.hint, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
  });
  const tidy = (given) => {
    try { return JSON.stringify(JSON.parse(given)); } catch { return given.trim(); }
  };
  const place = (value) => { if (tidy(input.value) !== value) input.value = value; };
  input.addEventListener('input', () => change(tidy(input.value)));
  return { input, shown: '', place, unsent: true, read: (given) => (given.length <= control.most ? given : undefined) };
}

const KINDS = { range: slider, slider, menu, named, toggle, line, text };

export function build(control, id, change) {
  const made = KINDS[control.kind](control, id, change);
  const row = element('div', { class: `mlx-control mlx-${control.kind}${control.whole ? ' mlx-whole' : ''}` },
    element('label', { for: id }, control.label), made.input, made.shown);
  made.place(control.default);
  return { name: control.name, row, ...made };
}
