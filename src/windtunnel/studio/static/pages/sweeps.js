// What did I learn? A figure against each field that varies, brushed: what is chosen in one chart is chosen in all, in the table and in the link. And SQL.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { take } from "../state.js";
import { setField } from "../yaml.js";
import { named } from "../format.js";
import { cloud, cells as table } from "../charts.js";
import { sketch } from "../sketch.js";
import { sweepForm } from "../sweep_form.js";

export const title = "Sweeps";
const FIRST = ["step_time_s", "ttft_s_p50", "days_mean", "jct_s_mean", "best_accuracy", "reserved_bytes"], SECOND = ["peak_memory_reserved_bytes", "cost_per_million_output_tokens", "cost", "best_cost_usd", "cost_per_million_tokens"];
const INNER = new Set(["cell", "verb", "draw", "attempt", "version", "physics", "host", "wall_s", "scenario_name", "simulated_in_s"]), TELLING = ["mfu", "tokens_per_s_per_device", "memory_fits", "bound_by", "num_devices", "output_tokens_per_s", "tpot_s_p50", "slo_attainment", "goodput", "utilisation", "best_label", "best_latency_s_p99", "status"];
const QUERIES = { "All cells": "SELECT * FROM cells LIMIT 5000", Frontier: "SELECT * FROM frontier", Failures: "SELECT * FROM failures" };
const MOST_CHARTS = 8, MOST_COLUMNS = 9;
const short = (n) => n.replace(/^x\./, "");

/** @param {any} page @param {URLSearchParams} words */
export async function show(page, words) {
  const files = await call("/api/files"), id = words.get("id") || files.sweeps?.[0]?.id;
  const form = sweepForm(async (folder) => { const found = await call("/api/files"), one = found.sweeps?.find((s) => s.path === folder); if (one) location.hash = `#/sweeps?id=${one.id}&new=${Date.now()}`; });
  if (!id) { fill(page, h("h1", {}, "Sweeps"), sketch(["cloud", "cloud", "table"], ["a figure against any other and against each field that varies", "frames that keep points in all charts and in the table", "what no other cell beats"], "A tenth of a second for most steps, times the combinations. What is computed stays when it is stopped."), h("section", { class: "card" }, h("h2", {}, "Start one"), form)); return; }
  const out = h("div", {}), sql = h("textarea", { rows: 2, "aria-label": "SQL", spellcheck: "false", class: "sql" });
  sql.value = words.get("q") || QUERIES["All cells"];
  const chosen = new Map(), which = h("select", { "aria-label": "Sweep", onchange: () => { location.hash = `#/sweeps?id=${which.value}`; } }, files.sweeps.map((s) => h("option", { value: s.id, selected: s.id === id }, s.path)));
  for (const one of words.getAll("f")) { const [name, low, high] = one.split("~"); if (high !== undefined && Number.isFinite(Number(low)) && Number.isFinite(Number(high))) chosen.set(name, [Number(low), Number(high)]); }
  const keep = () => { const w = new URLSearchParams({ id, q: sql.value }); for (const [name, [low, high]] of chosen) w.append("f", `${name}~${low}~${high}`); history.replaceState(null, "", `#/sweeps?${w}`); };
  const run = () => { chosen.clear(); keep(); go(); };
  sql.addEventListener("keydown", (e) => { if ((e.ctrlKey || e.metaKey) && e.key === "Enter") run(); });
  fill(page, h("h1", {}, "Sweeps"), h("details", { class: "card" }, h("summary", {}, "Start a sweep"), form), h("div", { class: "row" }, h("label", {}, "sweep ", which), Object.entries(QUERIES).map(([name, text]) => h("button", { onclick: () => { sql.value = text; run(); } }, name))),
    h("details", { class: "card", open: Boolean(words.get("q")) && !Object.values(QUERIES).includes(sql.value) }, h("summary", {}, "Ask in SQL"), h("p", { class: "muted" }, "Tables: cells, ok (cells with an answer), draws (quantiles over random draws), frontier (what no other cell beats), failures. Fields that vary begin with x. and stand in quotes: \"x.plan.tp\"."), sql, h("div", { class: "row" }, h("button", { class: "main", onclick: run }, "Ask"), h("span", { class: "muted" }, "or Ctrl Enter"))), out);
  go();
  async function go() {
    fill(out, h("p", { class: "muted" }, "asking …"));
    const found = await call(`/api/sweep/${id}`, { sql: sql.value });
    if (!found.ok) { fill(out, found.problems.map((p) => h("div", { class: "problem", role: "alert" }, p.message))); return; }
    draw(found);
  }
  /** @param {any} found */
  function draw(found) {
    const s = found.status, names = found.columns, rows = found.rows, index = Object.fromEntries(names.map((n, i) => [n, i]));
    const numeric = names.filter((n) => !INNER.has(n) && rows.some((r) => typeof r[index[n]] === "number")), axes = names.filter((n) => n.startsWith("x.") && new Set(rows.map((r) => r[index[n]])).size > 1);
    const figures = numeric.filter((n) => !n.startsWith("x.")), told = Object.entries(s.statuses).map(([n, c]) => `${c} ${n}`).join(", ");
    const summary = h("p", {}, `${s.verb}: ${s.done} of ${s.cells} cells (${told})`, s.missing ? h("span", { class: "muted" }, `; go on with windtunnel sweep resume ${s.folder}`) : null);
    const failures = s.failures.length ? h("details", { class: "card" }, h("summary", {}, "Why cells have no answer"), table(["cells", "status", "reason"], s.failures.map((f) => [f.cells, f.status, f.reason]))) : null;
    const list = h("div", {}), chips = h("div", { class: "row chips" });
    /** Values of a column as places: numbers as they are, words in their order. @type {Record<string, any[]>} */
    const kinds = Object.fromEntries([...axes, ...figures].map((n) => [n, numeric.includes(n) ? [] : [...new Set(rows.map((r) => String(r[index[n]])))].sort()]));
    const value = (r, n) => (kinds[n]?.length ? kinds[n].indexOf(String(r[index[n]])) : r[index[n]]), inside = (r) => [...chosen].every(([n, [low, high]]) => !(n in index) || (value(r, n) >= low && value(r, n) <= high));
    const charts = [];
    const changed = () => { keep(); for (const c of charts) c.mark(inside); rest(); };
    const brush = (picked) => { for (const [n, range] of picked) chosen.set(n, range); changed(); };
    const words = (r) => [...axes.map((a) => `${short(a)} ${r[index[a]]}`), ...[...new Set([up.value, over.value])].filter(Boolean).map((n) => `${n} ${named(n, r[index[n]])}`)].join("\n");
    const pick = (label, from, first) => h("select", { "aria-label": label, onchange: () => plots() }, from.map((n) => h("option", { value: n, selected: n === first }, short(n) || "one colour")));
    const up = pick("Figure", figures, FIRST.find((n) => figures.includes(n)) || figures[0]), over = pick("Against", numeric, SECOND.find((n) => figures.includes(n)) || numeric.find((n) => n !== up.value) || numeric[0]), colour = pick("Colour", ["", ...axes], axes[0] || "");
    const room = h("div", {});
    function plots() {
      charts.length = 0;
      const group = (r) => (colour.value ? `${short(colour.value)} ${r[index[colour.value]]}` : ""), one = (x, small) => { const c = cloud({ rows, x: (r) => value(r, x), y: (r) => value(r, up.value), xName: x, yName: up.value, kinds: kinds[x], group, words, brush, small, title: short }); charts.push(c); return c.node; };
      fill(room, h("section", { class: "card" }, h("h2", {}, `${short(up.value)} against ${short(over.value)}`), h("p", { class: "muted" }, "Draw a frame over points in any chart: the other charts and the table keep to them. The fields below do the same from the keyboard."), one(over.value, false)),
        axes.length ? h("section", { class: "card" }, h("h2", {}, "By each field that varies"), h("div", { class: "triple" }, axes.slice(0, MOST_CHARTS).map((a) => h("div", {}, one(a, true))))) : null);
      changed();
    }
    const add = h("select", { "aria-label": "Keep rows by", onchange: () => { const n = add.value; if (n) { const all = rows.map((r) => value(r, n)).filter((v) => typeof v === "number"); chosen.set(n, [Math.min(...all), Math.max(...all)]); add.value = ""; changed(); chips.querySelector(`[data-of="${n}"] input, [data-of="${n}"] select`)?.focus(); } } }, ["", ...axes, ...figures].map((n) => h("option", { value: n }, short(n) || "keep rows by …")));
    const every = h("input", { type: "checkbox", onchange: () => rest() });
    function rest() {
      const kept = rows.filter(inside), main = every.checked ? names : [...new Set([...names.filter((n) => n.startsWith("x.")), up.value, over.value, ...TELLING.filter((n) => names.includes(n))])].filter((n) => names.includes(n)).slice(0, Math.max(MOST_COLUMNS, axes.length + 3)), columns = main.length ? main : names;
      fill(chips, add, [...chosen].filter(([n]) => n in index).map(([n, range]) => chip(n, range)), chosen.size ? h("button", { onclick: () => { chosen.clear(); changed(); } }, "Keep all rows") : null, h("span", { role: "status" }, `${kept.length} of ${rows.length} rows`));
      fill(list, h("div", { class: "row" }, h("h2", {}, "Rows"), h("label", {}, every, " all columns"), h("button", { onclick: () => csv(names, kept) }, "Download CSV")), table(columns.map(short), kept.map((r) => columns.map((n) => r[index[n]])), { most: 200, does: names.includes("cell") && found.scenario ? (i) => h("button", { "aria-label": `Open row ${i + 1} as a scenario`, onclick: () => open(kept[i]) }, "open") : null }));
    }
    /** What keeps rows: a range of numbers, or of words in their order. @param {string} n @param {number[]} range */
    function chip(n, range) {
      const set = (i, v) => { range[i] = v; chosen.set(n, [Math.min(...range), Math.max(...range)]); changed(); };
      const end = (i) => (kinds[n]?.length ? h("select", { "aria-label": `${short(n)}, ${i ? "last" : "first"}`, onchange: (e) => set(i, Number(e.target.value)) }, kinds[n].map((w, k) => h("option", { value: k, selected: k === Math.max(0, Math.min(kinds[n].length - 1, i ? Math.floor(range[1]) : Math.ceil(range[0]))) }, w))) : h("input", { type: "number", step: "any", size: 8, value: Number(range[i].toPrecision(6)), "aria-label": `${short(n)}, ${i ? "most" : "least"}`, onchange: (e) => { if (e.target.value !== "") set(i, Number(e.target.value)); } }));
      return h("span", { class: "chip", "data-of": n }, `${short(n)} from `, end(0), " to ", end(1), h("button", { "aria-label": `Keep all ${short(n)}`, onclick: () => { chosen.delete(n); changed(); } }, "×"));
    }
    function open(row) {
      let text = `# a cell of ${which.selectedOptions[0]?.textContent || "a sweep"}\n${Object.entries(found.scenario).map(([k, v]) => `${k}: ${JSON.stringify(v)}`).join("\n")}\n`;
      for (const n of names.filter((n) => n.startsWith("x."))) if (row[index[n]] !== null) text = setField(text, short(n), row[index[n]]);
      take(text, { path: `cell of ${which.selectedOptions[0]?.textContent || "sweep"}` });
      location.hash = "#/scenario";
    }
    if (rows.length && figures.length && names.includes("cell")) {
      fill(out, summary, failures, h("div", { class: "row" }, h("label", {}, "figure ", up), h("label", {}, "against ", over), h("label", {}, "colour ", colour)), room, h("section", { class: "card" }, chips, list));
      plots();
    } else if (rows.length && numeric.length > 1) {
      fill(out, summary, failures, h("section", { class: "card" }, h("div", { class: "row" }, h("label", {}, "figure ", up), h("label", {}, "against ", over)), room), h("section", { class: "card" }, chips, list));
      plots();
    } else fill(out, summary, failures, h("section", { class: "card" }, rows.length ? table(names.map(short), rows) : h("p", { class: "muted" }, "No rows.")));
  }
}

/** @param {string[]} names @param {any[][]} rows */
function csv(names, rows) {
  const cell = (x) => (x === null ? "" : /[",\n]/.test(String(x)) ? `"${String(x).replaceAll('"', '""')}"` : String(x));
  const at = URL.createObjectURL(new Blob([[names, ...rows].map((r) => r.map(cell).join(",")).join("\n") + "\n"], { type: "text/csv" }));
  h("a", { href: at, download: "cells.csv" }).click();
  setTimeout(() => URL.revokeObjectURL(at), 1000);
}
