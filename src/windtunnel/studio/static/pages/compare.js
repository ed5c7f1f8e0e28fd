// Really different? Plans as columns, with the fields that differ.
import { h, fill } from "../dom.js";

import { state, take } from "../state.js";
import { FIGURES, at as pick, shown } from "../format.js";

import { from } from "../origin.js";

export const title = "Compare";

/** @param {any} page */
export async function show(page) { draw(page); }

/** @param {any} page */
function draw(page) {
  const columns = state.columns;
  if (!columns.length) { fill(page, h("h1", {}, "Compare"), h("p", {}, "No columns yet: two to six plans stand side by side here. On the ", h("a", { href: "#/scenario" }, "Scenario"), " page “Add to Compare” keeps what is shown as a column; edit, and add another. Advice adds columns too.")); return; }
  const flat = columns.map((c) => leaves(c.fields || c.result.scenario || {}));
  const names = [...new Set(flat.flatMap((f) => Object.keys(f)))].filter((n) => new Set(flat.map((f) => JSON.stringify(f[n]))).size > 1);
  const rows = FIGURES[columns[0].verb] || [];
  const range = (one, unit) => (one && typeof one.low === "number" ? h("div", { class: "range" }, `${shown(one.low, unit)} – ${shown(one.high, unit)}`) : null);
  const cell = (c, path, unit, band, better) => {
    const value = pick(c.result, path), first = pick(columns[0].result, path);
    const change = typeof value === "number" && typeof first === "number" && first && c !== columns[0] ? value / first - 1 : null;
    return from(h("td", { class: "n" }, h("span", { "data-path": path, "data-value": JSON.stringify(value ?? null) }, shown(value, unit)), band ? range(pick(c.result, band), unit) : null, change !== null && Math.abs(change) > 1e-4 ? h("div", { class: better ? (change * better < 0 ? "good" : "bad") : "muted" }, `${change > 0 ? "+" : "−"}${(100 * Math.abs(change)).toPrecision(3)} %`) : null), { text: c.text, file: c.file, verb: c.verb, result: c.result });
  };
  fill(page, h("h1", {}, "Compare"),
    h("div", { class: "row" }, h("button", { onclick: () => copy(columns, rows, names, flat) }, "Copy as a table"), h("button", { onclick: () => { state.columns = []; draw(page); } }, "Remove all")), columns.length === 1 ? h("p", { class: "muted" }, "One column; edit the scenario and add another to see what changes.") : h("p", { class: "muted" }, "Changes are against the first column. Grey rows are the fields that differ. Small figures are 80 % intervals."),
    h("div", { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Columns" }, h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, ""), columns.map((c, i) => h("th", { scope: "col", class: "n" }, h("div", {}, `${i + 1}. ${c.name}`), h("div", { class: "row tools" }, 
        h("button", { "aria-label": `Edit column ${i + 1}`, onclick: () => { take(c.text, { path: c.name, verb: c.verb }); location.hash = "#/scenario"; } }, "edit"),
        h("button", { "aria-label": `Remove column ${i + 1}`, onclick: () => { state.columns.splice(i, 1); draw(page); } }, "×")))))),
      h("tbody", {}, rows.map(([label, path, unit, band, better]) => h("tr", {}, h("th", { scope: "row" }, label), columns.map((c) => cell(c, path, unit, band, better)))),
        names.map((n) => h("tr", { class: "differs" }, h("th", { scope: "row" }, n), flat.map((f) => h("td", { class: "n" }, f[n] === undefined ? "–" : typeof f[n] === "object" ? JSON.stringify(f[n]) : String(f[n])))))))),
    columns.length === 2 && columns.every((c) => c.verb === "train") ? h("p", { class: "muted" }, "windtunnel compare a.yaml b.yaml says where the difference comes from and how sure its sign is.") : null);
}

/** @param {any} data @param {string} [path] @param {Record<string, any>} [out] */
function leaves(data, path = "", out = {}) {
  for (const [name, value] of Object.entries(data)) {
    if (value && typeof value === "object" && !Array.isArray(value)) leaves(value, `${path}${name}.`, out); else out[path + name] = value;
  }
  return out;
}

/** @param {any[]} columns @param {any[][]} rows @param {string[]} names @param {any[]} flat */
async function copy(columns, rows, names, flat) {
  const lines = [["", ...columns.map((c) => c.name)], ...rows.map(([label, path]) => [label, ...columns.map((c) => pick(c.result, path) ?? "")]), ...names.map((n) => [n, ...flat.map((f) => f[n] ?? "")])];
  await navigator.clipboard.writeText(lines.map((l) => l.map((x) => (typeof x === "object" ? JSON.stringify(x) : x)).join("\t")).join("\n"));
}
