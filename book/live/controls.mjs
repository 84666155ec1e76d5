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

// A line of a few letters: no other gets in, and the cursor stays where it was.
function line(control, id, change) {
  const input = element('input', {
    id, type: 'text', maxlength: control.most, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false',
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
    change(stays);
  });
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

const KINDS = { range: slider, slider, menu, toggle, line, text };

export function build(control, id, change) {
  const made = KINDS[control.kind](control, id, change);
  const row = element('div', { class: `mlx-control mlx-${control.kind}` },
    element('label', { for: id }, control.label), made.input, made.shown);
  made.place(control.default);
  return { name: control.name, row, ...made };
}
