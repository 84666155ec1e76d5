// What a chapter loads; nothing else happens until the reader touches something.
import { follow } from './contents.mjs';
import { element } from './dom.mjs';
import { enliven } from './experiment.mjs';
import { reachable } from './formulas.mjs';
import { ask } from './predict.mjs';
import { tell } from './tips.mjs';

document.querySelectorAll('.mlx[data-mlx]').forEach(enliven);
document.querySelectorAll('.mlx-predict[data-predict]').forEach(ask);
follow();
reachable();
tell();

// A cell that runs says so; what it needs for that comes when it is told to.
for (const place of document.querySelectorAll('.mlx-runs')) {
  const button = element('button', { type: 'button', class: 'mlx-run', 'aria-label': 'Run this cell' }, 'Run');
  button.addEventListener('click', async () => {
    button.setAttribute('aria-disabled', 'true');
    await import('./cells.mjs').then(({ open }) => open(place, button)).catch(() => {
      button.removeAttribute('aria-disabled');
      button.textContent = 'Run again: its files did not come';
    });
  });
  place.append(button);
}
