// Elements from plain calls: h("p", {class: "muted"}, "text"). Texts are never read as HTML.

/** @param {string} tag @param {Record<string, any>} [given] @param {...any} children @returns {any} */
export function h(tag, given = {}, ...children) {
  const svg = ["svg", "g", "rect", "text", "line", "circle", "path", "title", "polyline", "polygon"].includes(tag);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "selected") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

/** @param {any} node @param {any[]} children */
function add(node, children) {
  for (const child of children.flat(9)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** @param {any} node @param {...any} children */
export function fill(node, ...children) { node.replaceChildren(); add(node, children); return node; }

/** @param {string} words */
export function tell(words) { const at = document.getElementById("told"); if (at) at.textContent = words; }
