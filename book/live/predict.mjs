// Predict first: a box for the reader's guess; the stored answer unfolds once it has been given.
import { element } from './dom.mjs';

const plain = (x) => (Number.isInteger(x) && Math.abs(x) < 1e6 ? x.toLocaleString('en') : String(+x.toPrecision(4)))
  .replace('-', '−');
const amount = (x, unit) => `${plain(x)} ${unit}`.trim().replace(' %', '%');

// "2,5" is two and a half, "1,000" a thousand; what could be neither is no number.
const GROUPED = /^[+-]?\d{1,3}(,\d{3})+(\.\d+)?(e[+-]?\d+)?$/i;
const WITH_COMMA = /^[+-]?\d*,\d+(e[+-]?\d+)?$/i;

export function numberOf(typed) {
  const text = typed.replaceAll(/\s|%$/g, '');
  if (GROUPED.test(text)) return Number(text.replaceAll(',', ''));
  if (WITH_COMMA.test(text)) return Number(text.replace(',', '.'));
  return text ? Number(text) : NaN;
}

const times = (ratio) => (ratio >= 10 || ratio < 0.01
  ? ratio.toLocaleString('en', { maximumSignificantDigits: 3 }) : ratio.toFixed(2));

function judge(guess, measured, unit, word) {
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
    const guess = numberOf(input.value);
    if (!Number.isFinite(guess)) {
      said.textContent = 'Type a number, for example 12, 2.5 or 3e9.';
      return;
    }
    said.textContent = judge(guess, measured, unit, word);
    root.querySelector('details').open = true;
  });
  root.querySelector('details').before(form, said);
}
