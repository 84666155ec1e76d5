// A formula or result wider than its column scrolls, so the keyboard must reach it; one that fits is no stop on the way.
export function reachable() {
  const formulas = [...document.querySelectorAll('.katex-display, .mlx-output')];
  const mark = (formula) => {
    if (formula.scrollWidth > formula.clientWidth) formula.tabIndex = 0;
    else formula.removeAttribute('tabindex');
  };
  const sizes = new ResizeObserver((seen) => seen.forEach(({ target }) => mark(target)));
  for (const formula of formulas) sizes.observe(formula);
  document.fonts.addEventListener('loadingdone', () => formulas.forEach(mark)); // letters of another width in the same box
}
