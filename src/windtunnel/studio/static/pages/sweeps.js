// What did I learn? Rows of a sweep as points, and in SQL.
import { h, fill } from "../dom.js";
import { call } from "../api.js";
import { scatter, table } from "../charts.js";

export const title = "Sweeps";
const FIRST = ["step_time_s", "ttft_s_p50", "days_mean", "jct_s_mean", "reserved_bytes"];

/** @param {any} page @param {URLSearchParams} words */
export async function show(page, words) {
  const files = await call("/api/files"), id = words.get("id") || files.sweeps?.[0]?.id;
  if (!id) { fill(page, h("h1", {}, "Sweeps"), h("p", {}, "No sweep lies in this folder. Make one with:"), h("pre", {}, "windtunnel sweep my.yaml --vary plan.tp=1,2,4,8 --vary plan.mbs=1,2,4 --out runs/a")); return; }
  const out = h("div", {}), sql = h("textarea", { rows: 2, "aria-label": "SQL", spellcheck: "false" });
  sql.value = words.get("q") || "SELECT * FROM cells LIMIT 5000";
  const which = h("select", { "aria-label": "Sweep", onchange: () => { location.hash = `#/sweeps?id=${which.value}`; } }, files.sweeps.map((s) => h("option", { value: s.id, selected: s.id === id }, s.path)));
  const run = () => { history.replaceState(null, "", `#/sweeps?id=${id}&q=${encodeURIComponent(sql.value)}`); go(); };
  fill(page, h("h1", {}, "Sweeps"), h("div", { class: "row" }, which, h("button", { onclick: () => { sql.value = "SELECT * FROM frontier"; run(); } }, "Frontier"), h("button", { onclick: () => { sql.value = "SELECT * FROM cells LIMIT 5000"; run(); } }, "All cells")),
    h("div", { class: "card" }, h("label", {}, "SQL over cells, ok, draws, frontier, failures"), sql, h("div", { class: "row" }, h("button", { class: "main", onclick: run }, "Ask"))), out);
  sql.className = "sql";
  go();
  async function go() {
    fill(out, h("p", { class: "muted" }, "asking …"));
    const found = await call(`/api/sweep/${id}`, { sql: sql.value });
    if (!found.ok) { fill(out, found.problems.map((p) => h("div", { class: "problem", role: "alert" }, p.message))); return; }
    const s = found.status, names = found.columns, rows = found.rows;
    const index = Object.fromEntries(names.map((n, i) => [n, i])), numeric = names.filter((n) => rows.some((r) => typeof r[index[n]] === "number"));
    const axes = names.filter((n) => n.startsWith("x.") && new Set(rows.map((r) => r[index[n]])).size > 1);
    const yName = FIRST.find((n) => numeric.includes(n)) || numeric.find((n) => !n.startsWith("x.") && !["draw", "attempt", "wall_s"].includes(n));
    const pickX = h("select", { "aria-label": "Across" }, numeric.map((n) => h("option", { value: n, selected: n === (axes.find((a) => numeric.includes(a)) || numeric[0]) }, n)));
    const pickY = h("select", { "aria-label": "Up" }, numeric.map((n) => h("option", { value: n, selected: n === yName }, n)));
    const pickC = h("select", { "aria-label": "Colour" }, ["", ...axes].map((n) => h("option", { value: n, selected: n === (axes[1] || "") }, n || "one colour")));
    const plot = h("div", {});
    const draw = () => {
      const points = rows.map((r) => ({ x: r[index[pickX.value]], y: r[index[pickY.value]], group: pickC.value ? `${pickC.value.slice(2)} ${r[index[pickC.value]]}` : "", words: [...axes.map((a) => `${a.slice(2)} ${r[index[a]]}`), `${pickY.value} ${r[index[pickY.value]]}`].join("\n") }))
        .filter((p) => typeof p.x === "number" && typeof p.y === "number");
      fill(plot, points.length ? scatter(points, pickX.value, pickY.value) : h("p", { class: "muted" }, "Nothing to draw."));
    };
    for (const select of [pickX, pickY, pickC]) select.addEventListener("change", draw);
    const told = Object.entries(s.statuses).map(([n, c]) => `${c} ${n}`).join(", ");
    fill(out, h("p", {}, `${s.verb}: ${s.done} of ${s.cells} cells (${told})`, s.missing ? h("span", { class: "muted" }, `; go on with windtunnel sweep resume ${s.folder}`) : null),
      s.failures.length ? h("details", { class: "card" }, h("summary", {}, "Why cells have no answer"), table(["cells", "status", "reason"], s.failures.map((f) => [f.cells, f.status, f.reason]))) : null,
      rows.length && numeric.length > 1 ? h("div", { class: "card" }, h("div", { class: "row" }, "across ", pickX, " up ", pickY, " colour ", pickC), plot) : null,
      h("div", { class: "card" }, table(names, rows)));
    if (rows.length && numeric.length > 1) draw();
  }
}
