// One labelled form control for each declared control; `change` is called with the new value.
import { element } from './dom.mjs';

function slider(control, id, change) {
  const steps = control.kind === 'slider' ? control.options : null;
  const shown = element('output', { for: id });
  const input = element('input', {
    id, type: 'range',
    min: steps ? 0 : control.low, max: steps ? steps.length - 1 : control.high, step: steps ? 1 : control.step,
  });
  const place = (value) => { input.value = steps ? steps.findIndex((s) => s[1] === value) : value; show(); };
  const show = () => {
    shown.textContent = steps ? steps[+input.value][0] : `${input.value} ${control.unit}`.trim();
    input.setAttribute('aria-valuetext', shown.textContent);
  };
  input.addEventListener('input', () => { show(); change(steps ? steps[+input.value][1] : +input.value); });
  return { input, shown, place };
}

function menu(control, id, change) {
  const options = control.options.map(([label], i) => element('option', { value: i }, label));
  const input = element('select', { id }, ...options);
  const place = (value) => { input.selectedIndex = control.options.findIndex((o) => o[1] === value); };
  input.addEventListener('change', () => change(control.options[input.selectedIndex][1]));
  return { input, shown: '', place };
}

function toggle(control, id, change) {
  const input = element('input', { id, type: 'checkbox' });
  const place = (value) => { input.checked = value; };
  input.addEventListener('change', () => change(input.checked));
  return { input, shown: '', place };
}

const KINDS = { range: slider, slider, menu, toggle };

export function build(control, id, change) {
  const made = KINDS[control.kind](control, id, change);
  const row = element('div', { class: `mlx-control mlx-${control.kind}` },
    element('label', { for: id }, control.label), made.input, made.shown);
  made.place(control.default);
  return { row, input: made.input, reset: () => made.place(control.default) };
}
