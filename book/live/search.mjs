// The search page: ranks the book's sections, words and claims for what was typed. Loads the index only here.
import { element } from './dom.mjs';

const MOST = 30; // hits that are shown
const AROUND = 110; // characters of a snippet before and after the first word found

// "All-Reduce" -> "all reduce": small letters, and a blank for whatever is neither letter nor digit.
export const plain = (text) => text.normalize('NFKD').toLowerCase().replace(/[^\p{L}\p{N}]+/gu, ' ').trim();
const joined = (text) => plain(text).replaceAll(' ', '');
const singular = (word) => word.replace(/(?<=ch|sh|ss|x)es$|(?<=[^s])s$/, '');

// What was typed, cut into the longest names that the glossary knows and the words between them. A name comes with its
// others, so that GQA also finds "grouped-query attention", and with the section that introduces it.
function terms_of(query, records) {
  const known = new Map(records.flatMap((r) => (r.names ?? []).map((name) => [singular(joined(name)), r])));
  const words = plain(query).split(' ').filter(Boolean);
  const terms = [];
  while (words.length) {
    let length = words.length;
    const entry = () => known.get(singular(words.slice(0, length).join('')));
    while (length > 1 && !entry()) length -= 1;
    const { names = [], first } = entry() ?? {};
    const typed = words.splice(0, length).join(' ');
    terms.push({ names: [...new Set([singular(typed), ...names.map(plain)])], first });
  }
  return terms;
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
    const dense = text / (1 + Math.log10(1 + record.plain_text.length / 400)) + 6 * count(record.plain_page, name);
    const equal = (record.names ?? [record.title]).some((n) => plain(n) === name) ? 40 : 0;
    best = Math.max(best, 3 * title + dense + equal);
  }
  return best;
}

const WEIGHT = { section: 1, word: 1, trial: 0.7, page: 0.5, claim: 0.4, map: 0.2 };
const OFTEN = 3; // sections of one title, such as "Problems", are the frame of a chapter and not its subject
const HALF = 40; // a record worth as much answers half of a term: to have all terms says more than to repeat one
const WHOLE = 30; // what stands side by side as typed says more than each word of it in a title
const LEAST = 0.1; // of all that was typed, each term by its rarity, a hit must have

// The best hits, by how many of the terms a record has, how rare they are in the book, and how much of it is about them.
export function rank(records, query) {
  const tried = ({ names, first, half = HALF }) => {
    const worths = records.map((record) => worth(record, names));
    const rarity = Math.log((2 + records.length) / (1 + worths.filter(Boolean).length));
    const values = worths.map((w, i) => rarity * (w / (w + half) + (first === records[i].url)));
    return { names, rarity, values };
  };
  const terms = terms_of(query, records).map(tried).sort((a, b) => b.rarity - a.rarity);
  const phrase = terms.length > 1 ? [tried({ names: [plain(query)], half: HALF / WHOLE })] : [];
  const total = (all, number) => all.reduce((sum, term) => sum + number(term), 0);
  const hits = records.map((record, i) => {
    const had = terms.filter((term) => term.values[i]);
    const enough = total(had, (term) => term.rarity) > LEAST * total(terms, (term) => term.rarity);
    const value = enough ? record.weight * total([...phrase, ...had], (term) => term.values[i]) : 0;
    return { record, value, names: [...phrase, ...had].map((term) => term.names) };
  });
  return hits.filter(({ value }) => value > 0).sort((a, b) => b.value - a.value).slice(0, MOST);
}

export function prepare(records) {
  const titles = {};
  for (const { title } of records) titles[title] = 1 + (titles[title] ?? 0);
  for (const r of records) {
    const weight = WEIGHT[r.kind] * (titles[r.title] < OFTEN ? 1 : 0.5);
    Object.assign(r, { plain_title: plain(r.title), plain_text: plain(r.text), plain_page: plain(r.page), weight });
  }
  return records;
}

function place_of(names, text) {
  const patterns = names.map((n) => n.split(' ').join('[^\\p{L}\\p{N}]+'));
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${patterns.join('|')})[\\p{L}]*`, 'iu').exec(text);
}

// Some words around the first place of the rarest term, which is marked.
function snippet(text, terms) {
  const hit = terms.map((names) => place_of(names, text)).find(Boolean);
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
    element('a', { href: record.url }, record.url.includes('#') ? record.title : record.page),
    record.url.includes('#') ? element('small', {}, record.page) : '',
    element('p', {}, ...snippet(record.text, names)))));
  const said = hits.length ? `${hits.length === MOST ? 'The best ' : ''}${hits.length} ${hits.length === 1 ? 'place' : 'places'} for “${query}”` : `Nothing found for “${query}”. Try a shorter word, or the glossary.`;
  place.replaceChildren(element('p', { role: 'status' }, said), list);
}

const place = globalThis.document?.getElementById('mlx-results');
if (place) start(place);
