// Settings in the page's address, so that they can be shared: ?ring.ranks=5&ring.step=2#experiment-ring
export function settings(id, built, defaults) {
  const asked = new URLSearchParams(location.search);
  const values = { ...defaults };
  for (const { name, read } of built) {
    const value = asked.has(`${id}.${name}`) ? read(asked.get(`${id}.${name}`)) : undefined;
    if (value !== undefined) values[name] = value;
  }
  return values;
}

// Only what differs from the start is named; what other experiments have written stays.
export function address(id, values, defaults, place) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value === defaults[name]) query.delete(`${id}.${name}`);
    else query.set(`${id}.${name}`, value);
  }
  return `${location.pathname}${query.size ? '?' : ''}${query}#${place}`;
}
