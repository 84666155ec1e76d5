// The search page: ranks the book's sections, words and claims for what was typed. Loads the index only here.
import { element } from './dom.mjs';

const MOST = 30; // hits that are shown
const AROUND = 110; // characters of a snippet before and after the first word found

// "All-Reduce" -> "all reduce": small letters, and a blank for whatever is neither letter nor digit.
export const plain = (text) => text.normalize('NFKD').toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ').trim();
const joined = (text) => plain(text).replaceAll(' ', '');

// Other names of what was typed, out of the glossary: GQA also finds "grouped-query attention".
function names_of(words, records) {
  const same = records.filter((r) => r.names?.some((n) => joined(n) === joined(words)));
  return [...new Set([plain(words), ...same.flatMap((r) => r.names.map(plain))])];
}

function count(text, name, whole) {
  const end = whole ? '(?:s|es)?(?= |$)' : '';
  return text.match(new RegExp(`(?<=^| )${name}${end}`, 'gu'))?.length ?? 0;
}

// How well one record answers one word or phrase, under the best of its names.
function worth(record, names) {
  let best = 0;
  for (const name of names) {
    const title = 12 * count(record.plain_title, name, true) + 4 * count(record.plain_title, name);
    const text = 3 * Math.min(count(record.plain_text, name, true), 6) + Math.min(count(record.plain_text, name), 6);
    const dense = text / (1 + Math.log10(1 + record.plain_text.length / 400));
    const equal = (record.names ?? [record.title]).some((n) => plain(n) === name) ? 40 : 0;
    best = Math.max(best, 3 * title + dense + equal);
  }
  return best;
}

const WEIGHT = { section: 1, word: 1, page: 0.5, claim: 0.4, map: 0.2 };
const WHOLE = 10; // words that stand side by side as typed say more than each of them in a title
const ASIDE = new Set(['Problems', 'What to remember', 'The letters', 'Guess first']);

export function rank(records, query) {
  const phrase = names_of(query, records);
  const words = plain(query).split(' ').filter(Boolean).map((word) => names_of(word, records));
  const introduced = new Set(records.filter((r) => r.names?.some((n) => phrase.includes(plain(n)))).map((r) => r.first));
  if (!words.length) return [];
  const found = [];
  for (const record of records) {
    const each = words.map((names) => worth(record, names));
    let value = (words.length > 1 ? WHOLE : 4) * worth(record, phrase);
    if (each.every(Boolean)) value += each.reduce((a, b) => a + b, 0) / each.length;
    if (introduced.has(record.url)) value += 1000;
    value *= WEIGHT[record.kind] * (ASIDE.has(record.title) ? 0.5 : 1);
    if (value > 0) found.push({ record, value, names: [...phrase, ...words.flat()] });
  }
  return found.sort((a, b) => b.value - a.value).slice(0, MOST);
}

export function prepare(records) {
  for (const r of records) Object.assign(r, { plain_title: plain(r.title), plain_text: plain(r.text) });
  return records;
}

// Some words around the first one found, which is marked.
function snippet(text, names) {
  const patterns = names.filter(Boolean).map((n) => n.split(' ').join('[^\\p{L}\\p{N}]+'));
  const hit = new RegExp(`(?<![\\p{L}\\p{N}])(?:${patterns.join('|')})[\\p{L}]*`, 'iu').exec(text);
  if (!hit) return [text.length > 2 * AROUND ? `${text.slice(0, text.lastIndexOf(' ', 2 * AROUND))} …` : text];
  const [from, to] = [hit.index, hit.index + hit[0].length];
  const start = from > AROUND ? text.indexOf(' ', from - AROUND) + 1 : 0;
  const end = to + AROUND < text.length ? text.lastIndexOf(' ', to + AROUND) : text.length;
  return [
    (start ? '… ' : '') + text.slice(start, from), element('mark', {}, hit[0]),
    text.slice(to, end) + (end < text.length ? ' …' : ''),
  ];
}

async function start(place) {
  const input = document.querySelector('.mlx-search input');
  const query = new URLSearchParams(location.search).get('q') ?? '';
  input.value = query;
  input.focus();
  if (!query.trim()) return;
  const answer = await fetch(place.dataset.index, { cache: 'no-cache' });
  const hits = rank(prepare(await answer.json()), query);
  const list = element('ol', {}, ...hits.map(({ record, names }) => element('li', {},
    element('a', { href: record.url }, record.title),
    record.title === record.page ? '' : element('small', {}, record.page),
    element('p', {}, ...snippet(record.text, names)))));
  const said = hits.length ? `${hits.length === MOST ? 'The best ' : ''}${hits.length} ${hits.length === 1 ? 'place' : 'places'} for “${query}”` : `Nothing found for “${query}”. Try a shorter word, or the glossary.`;
  place.replaceChildren(element('p', { role: 'status' }, said), list);
}

const place = globalThis.document?.getElementById('mlx-results');
if (place) start(place);
