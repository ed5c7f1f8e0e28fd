// How many days? The distribution of the run's days, where its time is lost, and what would change it.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";
import { digits, seconds, shown } from "../format.js";
import { axes, figure, figures, grid, scale, sized } from "../plots.js";

export const title = "Run";
const days = (x) => `${digits(x, 4)} days`, percent = (x) => `${digits(100 * x, 3)} %`, signed = (x) => `${x > 0 ? "+" : x < 0 ? "−" : ""}${digits(Math.abs(100 * x), 3)} %`;

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Run", verb: "run", start: "Simulate the run", comes: [["histogram", "bars", "table"], ["how many days, with their spread", "where time is lost", "failures by cause", "what would change the days"], "Some seconds for 100 replications. It can be stopped."], question: "The whole training run with its failures, saves and restarts, for a scenario with a “run” section.", draw(answer, at) {
    const r = answer.result;
    fill(at, h("section", { class: "card" }, figures(r, [["days, mean", "days.mean", days], ["without disturbance", "ideal_days", days], ["goodput", "goodput", percent], ["failures", "failures_mean", (x) => digits(x, 4)], ["restarts", "restarts_mean", (x) => digits(x, 4)],
      ["save every", "checkpoint.interval_s", (x) => `${digits(x / 60, 3)} min`], ["cost", "cost", (x) => `${shown(x, "si")} ${r.currency}`], ["energy", "energy_kwh", (x) => `${digits(x, 4)} kWh`], ["carbon", "carbon_kg", (x) => `${digits(x, 4)} kg`]])),
    (r.warnings || []).map((w) => h("div", { class: "warning" }, w)), spread(r), histogram(r), waterfall(r), failures(r), sensitivities(r));
  } });
}

/** @param {any} r */
function spread(r) {
  const d = r.days, has = typeof r.interval?.low === "number";
  const list = [d.p10, d.p50, d.p90, d.mean, r.ideal_days, ...(has ? [r.interval.low, r.interval.high] : [])].filter(Number.isFinite);
  const plot = sized((wide) => {
    const tall = 132, left = 14, right = wide - 14, x = scale(list, left, right, false, wide < 500 ? 4 : 8), y = 62, p = x.place;
    const svg = h("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `Days of the run: half of the replications end within ${days(d.p50)}, eighty of a hundred between ${days(d.p10)} and ${days(d.p90)}, the mean is ${days(d.mean)}; the table below has the figures` });
    for (const t of x.ticks) svg.append(h("line", { class: "grid", x1: p(t), x2: p(t), y1: 20, y2: 96 }), h("text", { class: "soft", x: p(t), y: 112, "text-anchor": "middle" }, digits(t, 4)));
    svg.append(h("text", { x: (left + right) / 2, y: tall - 4, "text-anchor": "middle" }, "days"));
    if (has) svg.append(h("line", { class: "over", x1: p(r.interval.low), x2: p(r.interval.high), y1: y, y2: y }), ...[r.interval.low, r.interval.high].map((v) => h("line", { class: "over", x1: p(v), x2: p(v), y1: y - 7, y2: y + 7 })));
    svg.append(h("rect", { class: "k0", "fill-opacity": "0.35", x: p(d.p10), y: y - 16, width: Math.max(1, p(d.p90) - p(d.p10)), height: 32 }), h("line", { class: "s0", x1: p(d.p50), x2: p(d.p50), y1: y - 16, y2: y + 16 }),
      h("circle", { class: "k2", cx: p(d.mean), cy: y, r: 4.5 }), h("line", { class: "limit", x1: p(r.ideal_days), x2: p(r.ideal_days), y1: 26, y2: 96 }), h("text", { class: "soft", x: p(r.ideal_days) + 4, y: 16, "text-anchor": "start" }, "without disturbance"));
    return svg;
  });
  return h("section", { class: "card" }, h("h2", {}, "Days"), h("p", { class: "muted" }, "The box is the 80 % of ", figure(r, "replications", (x) => digits(x)), " replications, with the median as its line and the mean as its point; the whisker adds how well step time and failures are known."), plot,
    grid(["figure", "days"], [["10 of 100 end within", figure(r, "days.p10", days)], ["50 of 100", figure(r, "days.p50", days)], ["90 of 100", figure(r, "days.p90", days)], ["mean", figure(r, "days.mean", days)], ["interval, low", figure(r, "interval.low", days)], ["interval, high", figure(r, "interval.high", days)], ["without disturbance", figure(r, "ideal_days", days)]], "Days of the run"));
}

/** How many replications took how many days. @param {any} r */
function histogram(r) {
  const { edges_days: edges, counts } = r.days_histogram || { edges_days: [], counts: [] };
  if (counts.length < 2) return null;
  const plot = sized((wide) => {
    const drawn = axes({ wide, tall: 240, title: `Days of ${r.replications} replications in ${counts.length} bins, the most (${Math.max(...counts)}) around ${days(edges[counts.indexOf(Math.max(...counts))])}; the table has the counts`, xName: "days", yName: "replications", xWords: (x) => digits(x, 4), yWords: (x) => digits(x, 3), xs: edges, ys: [0, ...counts] });
    const base = drawn.y.place(0);
    counts.forEach((n, i) => { const x = drawn.x.place(edges[i]), top = drawn.y.place(n); drawn.svg.append(h("rect", { class: "k0", x: x + 0.5, y: top, width: Math.max(1, drawn.x.place(edges[i + 1]) - x - 1), height: Math.max(0, base - top) }, h("title", {}, `${digits(edges[i], 4)} to ${days(edges[i + 1])}: ${n}`))); });
    for (const [name, words] of [["p10", "10 %"], ["p50", "50 %"], ["p90", "90 %"]]) { const x = drawn.x.place(r.days[name]); drawn.svg.append(h("line", { class: "limit", x1: x, x2: x, y1: drawn.top, y2: base }), h("text", { class: "soft", x: x + 3, y: drawn.top + { p10: 10, p50: 24, p90: 10 }[name] }, words)); }
    return drawn.svg;
  });
  return h("section", { class: "card" }, h("h2", {}, "Histogram of the days"), plot, h("details", {}, h("summary", {}, "Counts"), grid(["from, days", "to, days", "replications"], counts.map((_, i) => [...[i, i + 1].map((e) => figure(r, `days_histogram.edges_days.${e}`, (x) => digits(x, 5))), figure(r, `days_histogram.counts.${i}`, (x) => digits(x))]), "Histogram of the days")));
}

/** What failed, and the stops of one replication. @param {any} r */
function failures(r) {
  const causes = Object.entries(r.failures_by_cause || {}).sort((a, b) => b[1] - a[1]), stops = r.stops || [];
  if (!causes.length) return null;
  return h("section", { class: "card" }, h("h2", {}, "Failures"), h("p", { class: "muted" }, `Rates of ${r.failure_profile}; failures of a run in the mean of the replications.`),
    grid(["cause", "failures a run"], causes.map(([name]) => [name, name.includes(".") ? digits(r.failures_by_cause[name], 4) : figure(r, `failures_by_cause.${name}`, (x) => digits(x, 4))]), "Failures by cause"),
    stops.length ? h("details", {}, h("summary", {}, `Stops of the first replication: ${stops.length}`), grid(["stop", "day", "cause", "work lost", "down"], stops.slice(0, 300).map((s, i) => [`${i + 1}`, figure(r, `stops.${i}.day`, (x) => digits(x, 4)), s.cause, figure(r, `stops.${i}.lost_s`, seconds), figure(r, `stops.${i}.down_s`, seconds)]), "Stops")) : null);
}

/** From ideal days up to the mean, a step for each class of lost time. @param {any} r */
function waterfall(r) {
  const lost = Object.entries(r.badput || {}).filter(([, share]) => share > 0).sort((a, b) => b[1] - a[1]), total = r.days.mean;
  if (!lost.length) return null;
  const steps = [["work that counts", "goodput", r.goodput], ...lost.map(([name, share]) => [name.replaceAll("_", " "), `badput.${name}`, share])];
  const low = Math.max(0, r.goodput - 0.15 * (1 - r.goodput));
  const plot = sized((wide) => {
    const name = Math.min(210, wide * 0.42), right = wide - 8, each = 25, tall = steps.length * each + 34;
    const x = (share) => name + ((share - low) / (1 - low)) * (right - name), svg = h("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `Where the wall time goes, in ${steps.length} steps from the work that counts to all of it; the table below has the figures` });
    let at = 0;
    steps.forEach(([words, , share], i) => {
      const from = i ? at : low, to = at + share, y = i * each + 4;
      svg.append(h("text", { class: "soft", x: name - 8, y: y + 13, "text-anchor": "end" }, wide < 500 ? cut(words) : words), h("rect", { class: i ? "k4" : "k1", x: x(from), y, width: Math.max(1, x(to) - x(from)), height: 16 }, h("title", {}, `${words}: ${percent(share)}`)));
      if (i < steps.length - 1) svg.append(h("line", { class: "over", x1: x(to), x2: x(to), y1: y, y2: y + each + 16 }));
      at = to;
    });
    svg.append(...[low, 1].map((t, i) => h("text", { class: "soft", x: x(t), y: tall - 18, "text-anchor": i ? "end" : "start" }, percent(t))), h("text", { x: (name + right) / 2, y: tall - 4, "text-anchor": "middle" }, "share of the wall time"));
    return svg;
  });
  return h("section", { class: "card" }, h("h2", {}, "Where time is lost"), h("p", { class: "muted" }, low > 0 ? `The axis begins at ${percent(low)}.` : ""), plot,
    grid(["class", "of the mean wall time"], steps.map(([words, path]) => [words, figure(r, path, (x) => `${percent(x)}, ${digits(x * total, 3)} days`)]), "Where time is lost"));
}

/** @param {string} words */
const cut = (words) => (words.length > 20 ? `${words.slice(0, 19)}…` : words);

/** @param {any} r */
function sensitivities(r) {
  const rows = Object.entries(r.sensitivities || {}).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  if (!rows.length) return null;
  const band = (name) => r.sensitivity_intervals?.[name], most = Math.max(...rows.flatMap(([name, x]) => [x, ...(band(name) || [])]).map(Math.abs), 1e-9);
  const plot = sized((wide) => {
    const left = 8, right = wide - 8, each = 40, tall = rows.length * each + 8, x = (v) => (left + right) / 2 + (v / most) * ((right - left) / 2 - 4);
    const svg = h("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `Change of the mean days under ${rows.length} changes; the table below has the figures` });
    svg.append(h("line", { class: "over", x1: x(0), x2: x(0), y1: 0, y2: tall }));
    rows.forEach(([name, v], i) => {
      const y = i * each + 4, b = band(name);
      svg.append(h("text", { class: "soft", x: left, y: y + 10 }, `${name.replaceAll("_", " ")}: ${signed(v)}`), h("rect", { class: v < 0 ? "k1" : "k4", x: Math.min(x(0), x(v)), y: y + 16, width: Math.max(1, Math.abs(x(v) - x(0))), height: 12 }));
      if (b) svg.append(h("line", { class: "over", x1: x(b[0]), x2: x(b[1]), y1: y + 22, y2: y + 22 }), ...b.map((e) => h("line", { class: "over", x1: x(e), x2: x(e), y1: y + 17, y2: y + 27 })));
    });
    return svg;
  });
  return h("section", { class: "card" }, h("h2", {}, "What would change it"), h("p", { class: "muted" }, "Change of the mean days; to the left is faster. Whiskers: 80 %, in the same random numbers."), plot,
    grid(["change", "mean days", "from", "to"], rows.map(([name]) => [name.replaceAll("_", " "), figure(r, `sensitivities.${name}`, signed), ...[0, 1].map((i) => (band(name) ? figure(r, `sensitivity_intervals.${name}.${i}`, signed) : ""))]), "What would change it"));
}
