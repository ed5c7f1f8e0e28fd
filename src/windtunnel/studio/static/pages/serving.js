// What load holds? Latencies and throughput against load, with an objective that can be moved.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";
import { at as pick, seconds, digits } from "../format.js";
import { draggable, figure, grid, legend, lines, sized } from "../plots.js";

export const title = "Serving";
const QUANTILES = ["p50", "p90", "p99"], WORDS = { p50: "median", p90: "90 %", p99: "99 %" }, UNITS = { rate: "requests/s", concurrency: "in flight", time_scale: "× the trace" };

/** @param {any} page */
export async function show(page) {
  const ends = h("input", { "aria-label": "Loads, as in rate=1..8", placeholder: "rate=1..8, or as the scenario", size: 26 }), points = h("input", { "aria-label": "How many loads", type: "number", min: 2, max: 40, value: 7 });
  return workPage(page, { title: "Serving", verb: "serve_curve", start: "Draw the load curve", comes: [["curve", "curve", "table"], ["TTFT and TPOT against load, with the objective as a line to move", "throughput", "where queues begin to grow without end"], "Some seconds for seven loads of 300 requests, more for longer traffic. It can be stopped."], question: "The scenario's traffic at a range of loads: where latencies rise, which load keeps to an objective, where queues grow without end.",
    extra: [h("label", {}, "loads ", ends), h("label", {}, "points ", points)], options: () => ({ axis: ends.value.trim(), points: Number(points.value) || 7 }), draw });
}

/** @param {any} answer @param {any} at */
function draw(answer, at) {
  const r = answer.result, unit = UNITS[r.axis] || r.unit, slo = r.scenario?.serving?.slo || {}, log = spread(r.points.map((p) => p.load));
  const known = (path, words) => (pick(r, path) === null || pick(r, path) === undefined ? null : figure(r, path, words)), load = (x) => `${digits(x, 4)} ${unit}`;
  fill(at, h("section", { class: "card" }, h("p", {}, r.knee ? ["The scenario's own objective holds up to ", figure(r, "knee.load", load)] : ["No load that was tried keeps to the scenario's own objective"],
    known("broken_at", load) ? [", and no more at ", known("broken_at", load)] : null, known("saturation_at", load) ? ["; the queue grows without end from ", known("saturation_at", load)] : null, ". Best goodput: ", figure(r, "best_goodput.goodput_requests_per_s", (x) => `${digits(x, 4)} requests/s`), " at ", figure(r, "best_goodput.load", load), "."),
    (r.warnings || []).map((w) => h("div", { class: "warning" }, w))),
  h("div", { class: "pair" }, latency(r, "ttft_s", "TTFT", slo.ttft_s, slo, unit, log), latency(r, "tpot_s", "TPOT", slo.tpot_s, slo, unit, log)),
  h("section", { class: "card" }, h("h2", {}, "Throughput"), sized((wide) => lines({ wide, tall: 260, title: `Output tokens/s against ${unit}, ${r.points.length} loads; the table below has the figures`, xName: unit, yName: "output tokens/s", xLog: log, xWords: (x) => digits(x, 3), yWords: (x) => digits(x, 4), lines: [{ name: "output tokens/s", points: r.points.map((p) => [p.load, p.output_tokens_per_s]) }] }).svg)),
  h("section", { class: "card" }, h("h2", {}, "Loads that were simulated"), grid([unit, "TTFT median", "TTFT 99 %", "TPOT median", "TPOT 99 %", "output tokens/s", "objective met", "saturated"], r.points.map((p, i) => [figure(r, `points.${i}.load`, (x) => digits(x, 4)),
    ...["ttft_s.p50", "ttft_s.p99", "tpot_s.p50", "tpot_s.p99"].map((n) => figure(r, `points.${i}.${n}`, seconds)), figure(r, `points.${i}.output_tokens_per_s`, (x) => digits(x, 5)), figure(r, `points.${i}.slo_attainment`, (x) => `${digits(100 * x, 3)} %`), figure(r, `points.${i}.saturated`, (x) => (x ? "yes" : "no"))]), "Loads that were simulated")));
}

/** @param {number[]} list */
const spread = (list) => Math.min(...list) > 0 && Math.max(...list) / Math.min(...list) > 8;

/** One latency against load with its objective. @param {any} r @param {string} name @param {string} label @param {number|undefined} own @param {any} slo @param {string} unit @param {boolean} xLog */
function latency(r, name, label, own, slo, unit, xLog) {
  const closest = QUANTILES.find((q) => Number(q.slice(1)) / 100 >= (slo.percentile ?? 0.9)) || "p99", values = r.points.flatMap((p) => QUANTILES.map((q) => p[name][q])).filter(Number.isFinite);
  let quantile = closest, objective = typeof own === "number" ? own : Math.sqrt(Math.min(...values) * Math.max(...values));
  const yLog = spread([...values, objective]), told = h("p", { class: "allows", "aria-live": "polite" });
  const which = h("select", { "aria-label": `Which ${label}`, onchange: () => { quantile = which.value; say(); } }, QUANTILES.map((q) => h("option", { value: q, selected: q === quantile }, WORDS[q])));
  const plot = sized((wide) => {
    const start = objective, drawn = lines({ wide, tall: 300, reached: true, also: [start], title: `${label} against ${unit} for ${r.points.length} loads, with the objective as a line that can be moved; the table below has the figures`, xName: unit, yName: label, xLog, yLog, xWords: (x) => digits(x, 3), yWords: seconds,
      lines: QUANTILES.map((q) => ({ name: `${label} ${WORDS[q]}`, points: r.points.map((p) => [p.load, p[name][q]]) })) });
    draggable(drawn, { axis: "y", log: true, label: `Objective of ${label}`, value: objective, say: (x) => `objective ${seconds(x)}`, moved: (x) => { objective = x; say(); } });
    return drawn.svg;
  });
  function say() {
    const bad = r.points.findIndex((p) => !(p[name][quantile] <= objective) || p.saturated), last = bad < 0 ? r.points.length - 1 : bad - 1;
    const head = [`${label} (${WORDS[quantile]}) of at most ${seconds(objective)}: `];
    if (last < 0) fill(told, head, h("strong", {}, "no load that was simulated"), " keeps to it.");
    else fill(told, head, h("strong", {}, "up to ", figure(r, `points.${last}.load`, (x) => `${digits(x, 4)} ${unit}`)), bad < 0 ? ", the highest load that was simulated." : [" of the loads that were simulated; not at ", figure(r, `points.${bad}.load`, (x) => digits(x, 4)), "."]);
  }
  say();
  return h("section", { class: "card" }, h("h2", {}, label), h("div", { class: "row" }, legend(QUANTILES.map((q) => WORDS[q])), h("label", {}, "objective on ", which)), told, plot, h("p", { class: "muted" }, "Drag the objective, or move it with the arrow keys."));
}
