// What a result offers besides being read: rows that set a control, files to save. What was open or had the focus keeps it.
import { element } from './dom.mjs';

function save(pre) {
  const place = URL.createObjectURL(new Blob([pre.textContent], { type: 'text/plain' }));
  element('a', { href: place, download: pre.dataset.file }).click();
  setTimeout(() => URL.revokeObjectURL(place), 1000);
}

function offer(place) {
  for (const row of place.querySelectorAll('tr[data-set]')) {
    const button = element('button', { type: 'button', 'data-focus': row.dataset.set, 'aria-pressed': row.hasAttribute('aria-current') });
    button.append(...row.cells[0].childNodes);
    row.cells[0].append(button);
  }
  for (const pre of place.querySelectorAll('pre[data-file]')) {
    const button = element('button', { type: 'button', 'data-focus': pre.dataset.file }, `Save as ${pre.dataset.file}`);
    button.addEventListener('click', () => save(pre));
    pre.after(button);
  }
}

// Without `nodes`, the result that stands there is made to offer what it can.
export function put(place, nodes) {
  if (!nodes) return offer(place);
  const open = new Set([...place.querySelectorAll('details[data-keep][open]')].map((one) => one.dataset.keep));
  const held = place.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  place.replaceChildren(nodes);
  offer(place);
  for (const one of place.querySelectorAll('details[data-keep]')) one.open = open.has(one.dataset.keep);
  if (held) place.querySelector(`[data-focus="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
}
