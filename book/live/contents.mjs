// Marks in the contents beside a page the section that is read: the last whose heading stands above the
// lower two thirds. The theme marks a heading as it comes by, and so misses those that a jump passes over.
const READ = 1 / 3; // of the window's height

export function follow() {
  const links = [...document.querySelectorAll('#pst-page-toc-nav a[href^="#"]')];
  const headings = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
  function mark() {
    const at_end = scrollY + innerHeight > document.documentElement.scrollHeight - 2;
    const passed = headings.filter((one) => at_end || one?.getBoundingClientRect().top < READ * innerHeight);
    const here = links[passed.length - 1];
    for (const link of links) {
      if (link === here) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
      link.classList.toggle('active', link === here);
    }
    for (const entry of document.querySelectorAll('#pst-page-toc-nav .toc-entry')) {
      entry.classList.toggle('active', entry.contains(here));
    }
  }
  let due; // one timer for a run of scrolls; it ends after the theme's own observer has spoken
  addEventListener('scroll', () => { due ??= setTimeout(() => { due = undefined; mark(); }, 100); }, { passive: true });
}
