// A view of a result: what the terminal and the report say, drawn from `writers/studio.py`. Texts are never read as HTML.
import { h } from "./dom.js";

/** Whether the page is dark. */
export const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

/** Every part of a view. @param {any} view */
export function drawView(view) {
  const root = h("div", { class: "view" });
  if (dark()) for (const [name, value] of Object.entries(view.dark || {})) root.style.setProperty(name, value);
  root.append(h("h2", {}, view.title), ...(view.lead || []).map((line) => h("p", { class: "muted" }, words(line))));
  if (view.verdict) root.append(h("div", { class: view.verdict.tone === "bad" ? "problem" : view.verdict.tone === "warn" ? "warning" : "card" }, words(view.verdict)));
  for (const line of view.warnings || []) root.append(h("div", { class: "warning" }, line));
  if (view.aside) root.append(h("p", { class: "muted" }, view.aside));
  if (view.tiles) root.append(h("div", { class: "figures" }, view.tiles.map(tile)));
  if (view.facts) root.append(h("section", { class: "card" }, table({ columns: [{}, {}, {}], rows: view.facts.map((f) => [f.name, f.value, f.note || ""]) }, "Figures")));
  for (const section of view.sections || []) if ((section.blocks || []).length) root.append(part(section));
  if (view.origin) root.append(h("p", { class: "muted" }, view.origin.join(" · ")));
  return root;
}

/** @param {any} section */
function part(section) {
  const head = section.title ? h("h2", {}, section.title, section.hint ? h("small", { class: "muted" }, ` ${section.hint}`) : null) : null;
  return h("section", { class: "card", id: section.anchor }, head, section.blocks.map((b) => block(b, section.title || "Table")));
}

/** @param {any} b @param {string} title */
function block(b, title) {
  if (b.kind === "table") return table(b, title);
  if (b.kind === "lines") return b.marked ? h("ul", {}, b.lines.map((line) => h("li", {}, words(line)))) : b.lines.map((line) => h("p", {}, words(line)));
  if (b.kind === "code") return b.summary ? h("details", {}, h("summary", {}, b.summary), h("pre", {}, b.text)) : h("pre", {}, b.text);
  return (b.charts || []).map((chart) => h("div", { class: "drawn", tabindex: 0, role: "group", "aria-label": chart.title }, svg(chart.svg)));
}

/** A drawing as an element. @param {string} text */
function svg(text) {
  const found = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (found.nodeName !== "svg") return null;
  const own = document.importNode(found, true);
  own.style.maxWidth = `${own.getAttribute("width")}px`;
  return own;
}

/** @param {any} t @param {string} label */
function table(t, label) {
  const first = t.rows.length - (t.totals || 0), kind = (i) => [t.columns[i]?.numeric ? "n" : "", t.columns[i]?.tone === "dim" ? "muted" : ""].join(" ").trim();
  const head = t.columns.some((c) => c.name) ? h("thead", {}, h("tr", {}, t.columns.map((c, i) => h("th", { scope: "col", class: kind(i) }, c.name || "")))) : null;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("table", {}, head, h("tbody", {}, t.rows.map((row, at) => h("tr", { class: at >= first ? "total" : "" }, row.map((cell, i) => h("td", { class: kind(i) }, words(cell))))))));
}

/** @param {any} t */
function tile(t) {
  const value = typeof t.value === "string" ? { text: t.value } : t.value;
  return h("div", { class: "figure" }, h("div", { class: "name" }, t.name), h("div", { class: value.text.length > 14 ? "value words" : "value" }, words(value), t.unit ? h("small", {}, ` ${t.unit}`) : null), (t.notes || []).map((note) => h("div", { class: "muted" }, words(note))));
}

/** A text with its tone, bar, swatch or small line. @param {any} w */
function words(w) {
  if (typeof w === "string") return lined(w);
  const text = w.code ? h("code", {}, lined(w.text || "")) : w.strong ? h("strong", {}, lined(w.text || "")) : lined(w.text || "");
  const toned = w.tone ? h("span", { class: { dim: "muted", good: "good", bad: "bad", warn: "warn" }[w.tone] || "" }, text) : text;
  return [w.share !== undefined ? bar(w) : null, w.spark ? line(w) : null, toned];
}

/** @param {string} text */
const lined = (text) => text.split("\n").flatMap((line, i) => (i ? [h("br"), line] : [line]));

/** @param {any} w */
function bar(w) {
  const own = h("span", { class: "bar", "aria-hidden": "true" });
  Object.assign(own.style, { width: `${Math.min(100, Math.max(0.5, 100 * w.share))}%`, marginLeft: `${100 * (w.start || 0)}%` });
  if (w.colour) own.style.background = w.colour;
  return h("span", { class: "room" }, own);
}

/** @param {any} w */
function line(w) {
  const most = Math.max(...w.spark) || 1, last = Math.max(w.spark.length - 1, 1);
  return h("svg", { viewBox: "0 0 100 21", preserveAspectRatio: "none", class: "spark", "aria-hidden": "true" }, h("polyline", { class: "s0", points: w.spark.map((v, i) => `${((100 * i) / last).toFixed(1)},${(20 - (19 * v) / most).toFixed(1)}`).join(" ") }));
}
