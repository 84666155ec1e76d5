// The search page: ranks what the book knows about for what was typed. Loads the index only here.
//
// MiniSearch ranks (BM25+). What is told to it is what this book's words are: a word and its other names in the
// glossary are one term, word forms are one, and a pair of neighbours is a term as well.
import MiniSearch from './minisearch.mjs';
import { element } from './dom.mjs';

const MOST = 30; // hits that are shown
const [BEFORE, AFTER] = [80, 140]; // characters of a snippet before and after where the first word found begins
const OFTEN = 3; // sections of one title, such as "Problems", are the frame of a chapter and not its subject
const LONGEST = 5; // words of a name
const EMPTY = new Set(['a an and are as at be by can do does for from how i in is it its my not of on or so than that',
  'the this to too use vs what when where which why with you'].join(' ').split(' '));
const WEIGHT = { section: 1, trial: 0.4, page: 0.5, experiment: 0.5, equation: 0.4, word: 0.3, claim: 0.3, map: 0.2 };
const RANKING = {
  boost: { title: 2, introduces: 2, page: 1, text: 1 },
  bm25: { k: 3, b: 0.7, d: 0.5 },
  weights: { fuzzy: 0.7, prefix: 0.5 },
};

// "All-Reduce" -> "all reduce", "128k" -> "128 thousand": small letters, and a blank for what is no letter and no digit.
const plain = (text) => text.normalize('NFKD').toLowerCase().replace(/(?<=\d)k(?!\p{L})/gu, ' thousand')
  .replace(/[^\p{L}\p{N}]+/gu, ' ').trim();

// Forms of one word are one: shards, sharded, sharding -> shard; dropped -> drop; quantise, quantize -> quantiz.
const single = (double) => (/[lsz]/.test(double) ? double + double : double);
const stem = (word) => word.replace(/(?<=[^s])s$/, '').replace(/is(?=e|ing|ation)/, 'iz')
  .replace(/(?<=\w{3})(?:(\w)\1)?(?:ation|ism|ing|ed|er|e)$/, (_, double) => (double ? single(double) : ''));
const stems = (text) => plain(text).split(' ').filter(Boolean).map(stem);

const pair = (words, at) => at > 0 && !EMPTY.has(words[at - 1]) && !EMPTY.has(words[at]) && `+${words[at - 1]}+${words[at]}`;
const term = (words, at) => !EMPTY.has(words[at]) && words[at];

// The name that begins at a place, as the glossary's first name of it, and of how many words it is.
function name_at(words, at, names) {
  for (let count = LONGEST; count; count -= 1) {
    const known = names.get(words.slice(at, at + count).join(''));
    if (known && at + count <= words.length) return [known, count];
  }
  return [null, 1];
}

// Terms of a text: its words, its pairs of neighbours, and every name in it.
const terms_of = (words, names) => words.flatMap((_, at) => [term(words, at), pair(words, at), name_at(words, at, names)[0]])
  .filter(Boolean);

// Terms of what was typed: the longest names, and the words and pairs between them.
function asked(words, names) {
  const terms = [];
  for (let at = 0, before = 0; at < words.length;) {
    const [known, count] = name_at(words, at, names);
    terms.push(known ?? term(words, at), count === 1 && before === 1 && pair(words, at));
    [at, before] = [at + count, count];
  }
  return terms.filter(Boolean);
}

// The book, to be searched: other names of each word, and with each section the words that it introduces.
export function prepare(records) {
  const [names, vocabulary, introduced, titles] = [new Map(), new Set(), {}, {}];
  for (const record of records) {
    titles[record.title] = 1 + (titles[record.title] ?? 0);
    if (!record.names) continue;
    for (const name of record.names) names.set(stems(name).join(''), `=${record.names[0]}`);
    (introduced[record.first] ??= []).push(record);
  }
  const index = new MiniSearch({
    fields: Object.keys(RANKING.boost),
    storeFields: ['weight', 'words'],
    tokenize: (text) => terms_of(stems(text), names),
    processTerm: (found) => vocabulary.add(found) && found,
  });
  index.addAll(records.map((record, id) => {
    const words = introduced[record.url] ?? [];
    const whole = !record.url.includes('#'); // a page: its subject, "Memory", stands before the colon
    return {
      id,
      title: whole ? record.title.split(':')[0] : record.title,
      page: record.page,
      text: whole ? `${record.title} ${record.text}` : record.text,
      introduces: words.map((word) => word.title).join(' | '),
      words: new Set(words.map((word) => `=${word.names[0]}`)),
      weight: WEIGHT[record.kind] * (titles[record.title] < OFTEN ? 1 : 0.5),
    };
  }));
  return { index, names, vocabulary, records };
}

export function rank({ index, names, vocabulary, records }, query) {
  const word = (one) => one.length > 3 && !/[+=]/.test(one);
  return index.search(query, {
    ...RANKING,
    tokenize: (text) => asked(stems(text), names),
    processTerm: (one) => one,
    prefix: word,
    fuzzy: (one) => word(one) && !vocabulary.has(one) && 0.25,
    boostDocument: (id, one, { weight, words }) => weight * (words.has(one) ? 2 : 1),
  }).slice(0, MOST).map((hit) => ({ record: records[hit.id], terms: new Set(hit.terms) }));
}

// Where a text has one of the terms: what stands there, from and to.
function places(text, terms, names) {
  const found = [...text.matchAll(/[\p{L}\p{N}]+/gu)];
  const words = found.map(([word]) => stem(plain(word)));
  return words.flatMap((word, at) => {
    const [known, count] = name_at(words, at, names);
    const [is, last] = terms.has(known) ? [known, at + count - 1] : [terms.has(word) && word, at];
    return is ? [{ is, from: found[at].index, to: found[last].index + found[last][0].length }] : [];
  });
}

// The words around the place that has most of the terms, which are marked.
function snippet(text, terms, names) {
  const all = places(text, terms, names);
  const after = (first) => all.filter(({ from, to }) => from >= first.from && to < first.from + AFTER);
  const different = (first) => new Set(after(first).map(({ is }) => is)).size;
  const first = all.reduce((best, one) => (different(one) > different(best) ? one : best), all[0] ?? { from: 0 });
  const start = first.from > BEFORE ? text.indexOf(' ', first.from - BEFORE) + 1 : 0;
  const end = first.from + AFTER < text.length ? text.lastIndexOf(' ', first.from + AFTER) : text.length;
  const parts = [start ? '… ' : ''];
  let at = start;
  for (const { from, to } of after(first)) {
    if (from < at || to > end) continue; // inside of a name that is marked
    parts.push(text.slice(at, from), element('mark', {}, text.slice(from, to)));
    at = to;
  }
  return [...parts, text.slice(at, end) + (end < text.length ? ' …' : '')];
}

async function start(place) {
  const input = document.querySelector('.mlx-search input');
  const query = new URLSearchParams(location.search).get('q') ?? '';
  input.value = query;
  input.focus();
  if (!query.trim()) return;
  const answer = await fetch(place.dataset.index, { cache: 'no-cache' });
  const book = prepare(await answer.json());
  const hits = rank(book, query);
  const list = element('ol', {}, ...hits.map(({ record, terms }) => element('li', {},
    element('a', { href: record.url }, record.url.includes('#') ? record.title : record.page),
    record.url.includes('#') ? element('small', {}, record.page) : '',
    element('p', {}, ...snippet(record.text, terms, book.names)))));
  const said = hits.length ? `${hits.length === MOST ? 'The best ' : ''}${hits.length} ${hits.length === 1 ? 'place' : 'places'} for “${query}”` : `Nothing found for “${query}”. Try a shorter word, or the glossary.`;
  place.replaceChildren(element('p', { role: 'status' }, said), list);
}

const place = globalThis.document?.getElementById('mlx-results');
if (place) start(place);
