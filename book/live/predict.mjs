// Predict first: a box for the reader's guess; the stored answer unfolds once it has been given.
import { element } from './dom.mjs';

const raised = (power) => power.replace('+', '').replace(/\d/g, (digit) => '⁰¹²³⁴⁵⁶⁷⁸⁹'[digit]).replace('-', '⁻');

// Three digits, as mathlib/show/says.py has them: 0.0123, 1.5, 12,300, 3.14 × 10²³; whole numbers below a million in full.
function plain(x) {
  const size = Math.abs(x);
  if (size === Infinity) return '∞';
  const near = Number.isInteger(x) ? x : +x.toPrecision(3);
  if (size < 1e6 && (Math.abs(near) >= 1e-4 || x === 0)) return near.toLocaleString('en', { maximumFractionDigits: 6 }).replace('-', '−');
  const [head, power] = size.toExponential(2).split('e');
  return `${x < 0 ? '−' : ''}${+head === 1 ? '' : `${+head} × `}10${raised(power)}`;
}

const amount = (x, unit) => `${plain(x)} ${unit}`.trim().replace(' %', '%');

const GROUPED = /^[+-]?\d{1,3}(,\d{3})+(\.\d+)?(e[+-]?\d+)?$/i;
const NUMBER = /^[+-]?(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?$/i;

// The number that was typed, alone or with the question's unit: "2,5" is two and a half, "1,000" a thousand. Else what is
// accepted, in words. mathlib/show/prediction.py reads it alike.
export function guessed(typed, unit) {
  const own = unit.replaceAll(' ', '');
  let text = typed.replaceAll('−', '-').replaceAll(/\s/g, '');
  if (own && text.endsWith(own)) text = text.slice(0, -own.length);
  if (own && text.startsWith(own)) text = text.slice(own.length);
  if (GROUPED.test(text)) text = text.replaceAll(',', '');
  const value = NUMBER.test(text) ? Number(text.replace(',', '.')) : NaN;
  return Number.isFinite(value) ? value : `Type a number, for example 12, 2.5 or 3e9, ${unit ? `alone or with ${unit}` : 'alone'}.`;
}

const times = (ratio) => (ratio >= 10 || ratio < 0.01 ? plain(ratio) : ratio.toFixed(2));

export function judge(guess, measured, unit, word = 'measured') {
  const said = `You said ${amount(guess, unit)}`;
  if (guess === measured) return `${said}: exactly what was ${word}.`;
  if (!measured || guess / measured <= 0) return `${said}; ${word}: ${amount(measured, unit)}.`;
  const ratio = guess / measured;
  if (!unit && measured > 0 && measured < 10 && Number.isInteger(measured) && Number.isInteger(guess)) { // a count, or the third of several
    return `${said}: ${plain(Math.abs(guess - measured))} too ${ratio > 1 ? 'high' : 'low'}.`;
  }
  const close = ratio >= 0.9 && ratio <= 1.1 ? 'close' : ratio > 1 ? 'too high' : 'too low';
  return `${said}: ${times(ratio)} times the ${word} value, ${close}.`;
}

export function ask(root, position) {
  const { measured, unit, word = 'measured' } = JSON.parse(root.dataset.predict);
  const id = `mlx-guess-${position}`;
  const input = element('input', { id, type: 'text', inputmode: 'decimal', autocomplete: 'off', size: '10' });
  const label = element('label', { for: id }, unit ? `Your guess, in ${unit}` : 'Your guess');
  const said = element('p', { class: 'mlx-status', role: 'status' });
  const form = element('form', {}, label, input, element('button', { type: 'submit' }, 'Compare'));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const guess = guessed(input.value, unit);
    if (typeof guess === 'string') {
      said.textContent = guess;
      return;
    }
    said.textContent = judge(guess, measured, unit, word);
    root.querySelector('details').open = true;
  });
  root.querySelector('details').before(form, said);
}
