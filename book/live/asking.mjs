// A program that a reader has written and Python runs: Run, Stop, and a clock for what does not end.
import { element } from './dom.mjs';
import { computing, run, stop, why_never } from './python.mjs';

export const limits = { computing: 20_000 }; // milliseconds until a program that has not ended is stopped
const LOOK = 200; // milliseconds between two looks at the clock

const loading = (got, total) => `Python is starting: ${(got / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(1)} MB.`;

// Buttons, a line that says how it goes, and one that only is read out; `instead` says what else does the same.
export function asking(root, instead) {
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
  async function ask(id, values) {
    busy(true);
    say('Running …');
    spoken.textContent = '';
    try {
      const html = await run(id, values, (got, total) => say(loading(got, total)));
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
  if (why_never()) say(ended({ final: true, message: why_never() }));
  return { begin, halt, again, status, spoken, say, ask };
}
