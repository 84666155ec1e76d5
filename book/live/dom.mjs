// Elements built by name, and results as nodes without anything that could run.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function parsed(html) {
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  for (const node of body.querySelectorAll('script, iframe, object, embed, link, meta, base, form')) node.remove();
  for (const node of body.querySelectorAll('*')) {
    for (const name of node.getAttributeNames()) { // names only: an object for each attribute would cost more than all the rest
      const address = name === 'href' || name === 'src' || name === 'xlink:href';
      if (name.startsWith('on') || (address && !node.getAttribute(name).startsWith('#'))) node.removeAttribute(name);
    }
  }
  const nodes = document.createDocumentFragment();
  nodes.append(...body.childNodes);
  return nodes;
}
