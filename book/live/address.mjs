// Settings in the page's address, so that they can be shared: ?ring.ranks=5&ring.step=2#experiment-ring
// What a reader has pasted stands behind the #, which no browser sends to a server: #experiment-plan&plan.config=...
export function settings(id, built, defaults) {
  const asked = new URLSearchParams(location.search);
  const pasted = new URLSearchParams(location.hash.split('&').slice(1).join('&'));
  const values = { ...defaults };
  for (const { name, read, unsent } of built) {
    const text = (unsent ? pasted : asked).get(`${id}.${name}`);
    const value = text === null ? undefined : read(text);
    if (value !== undefined) values[name] = value;
  }
  return values;
}

// Only what differs from the start is named; what other experiments have written stays.
export function address(id, built, values, defaults, place) {
  const query = new URLSearchParams(location.search);
  const pasted = new URLSearchParams();
  for (const { name, unsent } of built) {
    const key = `${id}.${name}`;
    if (values[name] === defaults[name]) query.delete(key);
    else (unsent ? pasted : query).set(key, values[name]);
  }
  return `${location.pathname}${query.size ? '?' : ''}${query}#${place}${pasted.size ? '&' : ''}${pasted}`;
}
