// Really different? Plans as columns, named by what differs, with where the time goes and what fills the memory.
import { h, fill } from "../dom.js";

import { state, take } from "../state.js";
import { FIGURES, at as pick, seconds, shown } from "../format.js";
import { stacks } from "../charts.js";
import { sketch } from "../sketch.js";

import { from } from "../origin.js";

export const title = "Compare";
const MOST_WORDS = 3;
/** What columns are made of: words, where it stands in a result, its unit, and what it may fill. @type {[string, string, string, string?][]} */
const PARTS = [["Where the time goes", "breakdown", "s"], ["Memory at its peak", "memory.at_peak", "bytes", "memory.capacity_bytes"]];

/** @param {any} page */
export async function show(page) { draw(page); }

/** @param {any} page */
function draw(page) {
  const columns = state.columns;
  if (!columns.length) {
    fill(page, h("h1", {}, "Compare"), sketch(["table", "stacks"], ["two to six plans as columns, named by what differs", "changes against the first, with intervals", "where the time goes and what fills the memory, side by side"], "Nothing is computed anew."),
      h("p", {}, "No columns yet. On the ", h("a", { href: "#/scenario" }, "Scenario"), " page “Add to Compare” keeps what is shown as a column; edit, and add another. Advice adds columns too."));
    return;
  }
  const flat = columns.map((c) => leaves(c.fields || c.result.scenario || {}));
  const names = [...new Set(flat.flatMap((f) => Object.keys(f)))].filter((n) => new Set(flat.map((f) => JSON.stringify(f[n]))).size > 1);
  const called = columns.map((c, i) => c.title || differing(flat[i], names) || c.name || `plan ${i + 1}`);
  const rows = FIGURES[columns[0].verb] || [];
  const range = (one, unit) => (one && typeof one.low === "number" ? h("div", { class: "range" }, `${shown(one.low, unit)} – ${shown(one.high, unit)}`) : null);
  const cell = (c, path, unit, band, better) => {
    const value = pick(c.result, path), first = pick(columns[0].result, path);
    const change = typeof value === "number" && typeof first === "number" && first && c !== columns[0] ? value / first - 1 : null;
    return from(h("td", { class: "n" }, h("span", { "data-path": path, "data-value": JSON.stringify(value ?? null) }, shown(value, unit)), band ? range(pick(c.result, band), unit) : null, change !== null && Math.abs(change) > 1e-4 ? h("div", { class: better ? (change * better < 0 ? "good" : "bad") : "muted" }, `${change > 0 ? "+" : "−"}${(100 * Math.abs(change)).toPrecision(3)} %`) : null), { text: c.text, file: c.file, verb: c.verb, result: c.result });
  };
  const parts = PARTS.map(([said, path, unit, most]) => ({ said, path, unit, most, classes: classes(columns.map((c) => pick(c.result, path))) })).filter((p) => p.classes.length);
  const drawn = h("div", { class: "pair" }, parts.map((p) => h("section", { class: "card" }, h("h2", {}, p.said), stacks(p.classes, columns.map((c, i) => ({ name: called[i], values: pick(c.result, p.path) || {}, most: p.most ? pick(c.result, p.most) : undefined })), p.unit === "s" ? seconds : (x) => shown(x, p.unit), p.said))));
  fill(page, h("h1", {}, "Compare"),
    h("div", { class: "row" }, h("button", { onclick: () => copy(columns, called, rows, names, flat) }, "Copy as a table"), h("button", { onclick: () => { state.columns = []; draw(page); } }, "Remove all")), columns.length === 1 ? h("p", { class: "muted" }, "One column; edit the scenario and add another to see what changes.") : h("p", { class: "muted" }, "Columns are named by what differs; a name can be typed over. Changes are against the first column. Grey rows are the fields that differ. Small figures are 80 % intervals."),
    drawn,
    h("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Columns" }, h("table", { class: "columns" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), columns.map((c, i) => h("th", { scope: "col", class: "n" }, h("input", { class: "called", "aria-label": `Name of column ${i + 1}`, value: called[i], title: called[i], onchange: (e) => { c.title = e.target.value.trim(); draw(page); } }), h("div", { class: "row tools" },
        h("button", { "aria-label": `Edit column ${i + 1}`, onclick: () => { take(c.text, { path: c.name, verb: c.verb }); location.hash = "#/scenario"; } }, "edit"),
        h("button", { "aria-label": `Remove column ${i + 1}`, onclick: () => { state.columns.splice(i, 1); draw(page); } }, "×")))))),
      h("tbody", {}, rows.map(([label, path, unit, band, better]) => h("tr", {}, h("th", { scope: "row" }, label), columns.map((c) => cell(c, path, unit, band, better)))),
        parts.map((p) => [h("tr", { class: "head" }, h("th", { scope: "rowgroup", colspan: columns.length + 1 }, p.said)), p.classes.map((n) => h("tr", {}, h("th", { scope: "row" }, n.replaceAll("_", " ")), columns.map((c) => cell(c, `${p.path}.${n}`, p.unit, "", 1))))]),
        names.map((n) => h("tr", { class: "differs" }, h("th", { scope: "row" }, n), flat.map((f) => h("td", { class: "n" }, f[n] === undefined ? "–" : typeof f[n] === "object" ? JSON.stringify(f[n]) : String(f[n])))))))),
    columns.length === 2 && columns.every((c) => c.verb === "train") ? h("p", { class: "muted" }, "windtunnel compare a.yaml b.yaml says how sure the sign of the difference is.") : null);
}

/** A column in the fields that differ: names of things alone, other values with their field. @param {Record<string, any>} fields @param {string[]} names */
function differing(fields, names) {
  const told = names.filter((n) => fields[n] !== undefined).map((n) => (typeof fields[n] === "string" && /(^|\.)(model|device|engine|framework|name)$/.test(n) ? fields[n].split("/").pop() : `${n.split(".").pop()} ${typeof fields[n] === "object" ? JSON.stringify(fields[n]) : fields[n]}`));
  return told.slice(0, MOST_WORDS).join(" · ") + (told.length > MOST_WORDS ? ` · ${told.length - MOST_WORDS} more` : "");
}

/** Classes that any column has, the largest first; those that would be told as 0.0 % of every column are left out. @param {any[]} records */
function classes(records) {
  const most = {};
  for (const one of records) { const whole = Object.values(one || {}).reduce((a, b) => a + (typeof b === "number" ? b : 0), 0); for (const [n, x] of Object.entries(one || {})) if (typeof x === "number" && x > 5e-4 * whole) most[n] = Math.max(most[n] || 0, x); }
  return Object.keys(most).sort((a, b) => most[b] - most[a]);
}

/** @param {any} data @param {string} [path] @param {Record<string, any>} [out] */
function leaves(data, path = "", out = {}) {
  for (const [name, value] of Object.entries(data)) {
    if (value && typeof value === "object" && !Array.isArray(value)) leaves(value, `${path}${name}.`, out); else out[path + name] = value;
  }
  return out;
}

/** @param {any[]} columns @param {string[]} called @param {any[][]} rows @param {string[]} names @param {any[]} flat */
async function copy(columns, called, rows, names, flat) {
  const lines = [["", ...called], ...rows.map(([label, path]) => [label, ...columns.map((c) => pick(c.result, path) ?? "")]), ...names.map((n) => [n, ...flat.map((f) => f[n] ?? "")])];
  await navigator.clipboard.writeText(lines.map((l) => l.map((x) => (typeof x === "object" ? JSON.stringify(x) : x)).join("\t")).join("\n"));
}
