// A program that a reader writes and Python runs: a place for its editor, Run, Stop, and a clock for what does not end.
import { element } from './dom.mjs';
import { computing, run, stop, warm, why_never } from './python.mjs';

export const limits = { computing: 20_000 }; // milliseconds until a program that has not ended is stopped
const KEYS = 'Ctrl+Enter runs. Tab indents; press Escape, then Tab, to leave the editor.';
const LOOK = 200; // milliseconds between two looks at the clock

const loading = (got, total) => `Python is starting: ${(got / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB.`;

// The place and what keys do there, buttons, a line that says how it goes, and one that only is read out. `room` is what
// answers, `name` tells its programs apart, `instead` says what else does the same.
export function asking(root, room, name, instead) {
  const box = element('div', { class: 'mlx-editor' });
  const keys = element('p', { class: 'mlx-keys', id: `keys-${name}` }, KEYS);
  const begin = element('button', { type: 'button' }, 'Run');
  const halt = element('button', { type: 'button', disabled: '' }, 'Stop');
  const again = element('button', { type: 'button' }, 'Reset');
  const status = element('p', { class: 'mlx-status', role: 'status' });
  const spoken = element('p', { class: 'mlx-spoken', 'aria-live': 'polite' });
  let clock;
  let late; // stopped since it took too long

  const say = (words) => { status.textContent = words; };
  const busy = (is) => {
    begin.disabled = is;
    halt.disabled = !is;
    root.toggleAttribute('aria-busy', is);
    clearInterval(clock);
    late = false;
    if (is) clock = setInterval(() => {
      if (computing() < limits.computing) return;
      late = true;
      stop();
    }, LOOK);
  };
  const ended = ({ stopped, final, message }) => {
    if (!stopped) return `Python cannot run${final ? ' here' : ' now'}: ${message}. ${instead}`;
    return late ? `Stopped after ${limits.computing / 1000} s: an endless loop?` : 'Stopped.';
  };

  // The answer, or nothing where there is none; then it says why.
  async function ask(values) {
    busy(true);
    say('Running …');
    spoken.textContent = '';
    try {
      const html = await run(room, values, (got, total) => say(loading(got, total)));
      say('');
      return html;
    } catch (error) {
      say(ended(error));
      return undefined;
    } finally {
      busy(false);
    }
  }

  halt.addEventListener('click', () => stop());
  box.addEventListener('focusin', () => { if (!navigator.connection?.saveData) warm(room); });
  if (why_never()) say(ended({ final: true, message: why_never() }));
  return { box, keys, begin, halt, again, status, spoken, say, ask };
}
