// A finger cannot rest on a word: its first tap shows what the word means, the next one follows the link.
export function tell() {
  let told;
  addEventListener('click', (tap) => {
    const link = tap.target.closest('a:has(> .mlx-tip)');
    const first = tap.pointerType === 'touch' && link !== told;
    told?.classList.remove('mlx-told');
    told = first ? link : undefined;
    told?.classList.add('mlx-told');
    if (told) tap.preventDefault();
  });
}
