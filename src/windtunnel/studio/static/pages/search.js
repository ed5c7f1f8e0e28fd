// The best plan, with the proof that nothing is better.
import { h, fill, tell } from "../dom.js";
import { workPage, open } from "./work.js";
import { at as pick, seconds, digits } from "../format.js";
import { axes, figure, figures, grid, sized } from "../plots.js";

export const title = "Search";
const gib = (x) => `${digits(x / 2 ** 30, 4)} GiB`, count = (x) => Number(x).toLocaleString("en");
const AXES = ["tp", "pp", "cp", "ep", "dp", "vpp", "mbs", "zero", "recompute"];

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Search", verb: "plan", start: "Find the best plan", question: "The best plan that keeps to the scenario's limits. What the scenario sets stays; `search:` says what may vary.", draw(answer, at) {
    const r = answer.result, plan = r.recommended?.scenario || r.scenario;
    const begun = h("div", { class: "row" }, plan && typeof plan === "object" ? h("button", { class: "main", onclick: () => open(plan, "planned") }, "Open as scenario") : null);
    if (!r.proof || !Array.isArray(r.frontier)) { fill(at, h("div", { class: "card" }, begun)); return; }
    fill(at, h("div", { class: "card" }, figures(r, [["best step", "best.step_time_s", seconds], ["its memory", "best.peak_memory_reserved_bytes", gib], ["its MFU", "best.mfu", (x) => `${digits(100 * x, 3)} %`],
      ["recommended step", "recommended.step_time_s", seconds]]), proof(r), begun), plans(r), heat(r));
  } });
}

/** @param {any} r */
function proof(r) {
  const p = r.proof, f = (name, words = count) => figure(r, `proof.${name}`, words), limits = Object.keys(p.pruned_by_limit || {});
  return h("p", { class: "proof" }, "Of ", f("candidates"), " plans ", f("pruned_by_memory"), " do not fit the memory, ", limits.flatMap((n) => [f(`pruned_by_limit.${n}`), ` break the limit on ${n.replaceAll("_", " ")}, `]), f("pruned_by_bound"),
    " cannot be better by their lower bound, ", f("refused"), " were refused, and ", f("simulated"), " were simulated. ",
    p.complete ? ["Nothing is left open: no plan that was counted is better", typeof p.next_bound === "number" && p.objective === "step_time" ? [" (the next lower bound is ", f("next_bound", seconds), ")"] : null, "."]
      : [f("open"), " are left open; the best may be improved by at most ", f("gap", (x) => `${digits(100 * x, 3)} %`), "."]);
}

/** @param {any} r @param {any} f */
function scenario(r, f) {
  const own = r.scenario.plan || {}, same = own.pp === f.plan.pp && (own.vpp || 1) === f.plan.vpp;
  const kept = Object.fromEntries(Object.entries(own).filter(([name]) => same || name !== "stages"));
  return { ...r.scenario, cluster: { ...r.scenario.cluster, ...f.cluster }, training: { ...r.scenario.training, precision: f.precision || r.scenario.training?.precision }, plan: { ...kept, ...f.plan } };
}

/** @param {any} plan */
const words = (plan) => AXES.filter((n) => plan[n] !== undefined && (n === "tp" || n === "pp" || (plan[n] !== 1 && plan[n] !== "none"))).map((n) => `${n} ${plan[n]}`).join(" · ");

/** @param {any} r */
function plans(r) {
  const all = r.frontier.map((f, i) => ({ f, i })), capacity = pick(r, "best.memory.capacity_bytes"), told = h("p", { class: "muted", role: "status" });
  const highest = Math.max(...all.map(({ f }) => f.reserved_bytes || 0), capacity || 0), slowest = Math.max(...all.map(({ f }) => f.step_time_s)), fastest = Math.min(...all.map(({ f }) => f.step_time_s));
  const limit = { bytes: highest, s: slowest };
  const left = () => all.filter(({ f }) => (f.reserved_bytes === null || f.reserved_bytes <= limit.bytes * 1.0000001) && f.step_time_s <= limit.s * 1.0000001);
  const go = (f) => open(scenario(r, f), `planned ${words(f.plan)}`);
  const table = h("div", {}), plot = sized((wide) => {
    const seen = left().filter(({ f }) => f.reserved_bytes !== null);
    if (!seen.length) return h("p", { class: "muted" }, "No simulated plan keeps to these limits.");
    const drawn = axes({ wide, tall: 330, reached: true, title: `Step time against memory of ${seen.length} plans, each over its lower bound; the table below has the figures`, xName: "reserved memory, GiB", yName: "step time, s", xWords: (x) => digits(x, 3), yWords: (x) => digits(x, 4),
      xs: seen.map(({ f }) => f.reserved_bytes / 2 ** 30), ys: seen.flatMap(({ f }) => [f.step_time_s, f.bound_s]) });
    const most = capacity ? drawn.x.place((capacity * (r.memory_fraction ?? 1)) / 2 ** 30) : 0;
    if (most < drawn.right && most > drawn.left) drawn.svg.append(h("line", { class: "limit", x1: most, x2: most, y1: drawn.top, y2: drawn.bottom }),
      h("text", { class: "soft", x: most + (most > (drawn.left + drawn.right) / 2 ? -5 : 5), y: drawn.top - 4, "text-anchor": most > (drawn.left + drawn.right) / 2 ? "end" : "start" }, `${digits(100 * (r.memory_fraction ?? 1), 3)} % of the device`));
    for (const { f, i } of seen) {
      const x = drawn.x.place(f.reserved_bytes / 2 ** 30), y = drawn.y.place(f.step_time_s), b = drawn.y.place(f.bound_s), kind = f.fits === false ? "k4" : "k0";
      drawn.svg.append(h("line", { class: "over", x1: x, x2: x, y1: y, y2: b }), h("line", { class: "over", x1: x - 5, x2: x + 5, y1: b, y2: b }));
      const given = { class: `${kind} mark`, tabindex: 0, role: "button", "aria-label": `Open plan ${words(f.plan)}: ${seconds(f.step_time_s)}, ${gib(f.reserved_bytes)}${f.fits === false ? ", does not fit" : ""}`, "data-path": `frontier.${i}.step_time_s`, "data-value": JSON.stringify(f.step_time_s), onclick: () => go(f), onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); go(f); } } };
      drawn.svg.append(h(f.fits === false ? "rect" : "circle", f.fits === false ? { ...given, x: x - 6, y: y - 6, width: 12, height: 12 } : { ...given, cx: x, cy: y, r: 7 }, h("title", {}, `${words(f.plan)}\n${seconds(f.step_time_s)}, bound ${seconds(f.bound_s)}\n${gib(f.reserved_bytes)}`)));
    }
    return drawn.svg;
  });
  const draw = () => {
    const kept = left();
    told.textContent = `${kept.length} of ${all.length} plans are drawn or listed.`;
    fill(table, grid(["plan", "step", "lower bound", "memory", "fits", "open"], kept.map(({ f, i }) => [words(f.plan), figure(r, `frontier.${i}.step_time_s`, seconds), figure(r, `frontier.${i}.bound_s`, seconds),
      figure(r, `frontier.${i}.reserved_bytes`, gib), figure(r, `frontier.${i}.fits`, (x) => (x ? "yes" : "no")), h("button", { "aria-label": `Open plan ${words(f.plan)}`, onclick: () => go(f) }, "open")]), "Plans that were simulated"));
    plot.redraw();
  };
  const slider = (name, key, low, high, say) => { const now = h("span", { class: "now" }, say(high)); return h("label", { class: "slider" }, name, " ", h("input", { type: "range", min: 0, max: 1000, value: 1000, "aria-valuetext": say(high), oninput: (e) => { limit[key] = low + ((high - low) * e.target.value) / 1000; now.textContent = say(limit[key]); e.target.setAttribute("aria-valuetext", now.textContent); draw(); tell(told.textContent); } }), " ", now); };
  const lowest = Math.min(...all.map(({ f }) => f.reserved_bytes ?? Infinity));
  const card = h("section", { class: "card" }, h("h2", {}, "Plans that were simulated"), h("p", { class: "muted" }, "Each mark is a plan; the stem under it goes down to its lower bound. Squares do not fit the limits. A mark opens as a scenario."),
    h("div", { class: "row" }, slider("memory at most", "bytes", Number.isFinite(lowest) ? lowest : 0, highest, gib), slider("step at most", "s", fastest, slowest, seconds)), told, plot, table);
  draw();
  return card;
}

/** @param {any} r */
function heat(r) {
  const cells = (r.why?.cells || []).map((c, i) => ({ ...c, i })), tps = [...new Set(cells.map((c) => c.tp))].sort((a, b) => a - b), pps = [...new Set(cells.map((c) => c.pp))].sort((a, b) => a - b);
  if (!cells.length) return null;
  const of = (c) => c.simulated_s ?? c.bound_s, low = Math.min(...cells.map(of)), high = Math.max(...cells.map(of));
  return h("section", { class: "card" }, h("h2", {}, "tp × pp"), h("p", { class: "muted" }, "The fastest plan of each cell: simulated in bold, else no plan of the cell can be faster than this lower bound. Darker is faster."),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Step time by tp and pp" }, h("table", { class: "heat" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "tp\u00a0\\\u00a0pp"), pps.map((p) => h("th", { scope: "col", class: "n" }, p)))),
      h("tbody", {}, tps.map((t) => h("tr", {}, h("th", { scope: "row" }, t), pps.map((p) => {
        const c = cells.find((one) => one.tp === t && one.pp === p);
        if (!c) return h("td", { class: "n muted" }, "–");
        const simulated = c.simulated_s !== null, cell = figure(r, `why.cells.${c.i}.${simulated ? "simulated_s" : "bound_s"}`, (x) => `${simulated ? "" : "≥ "}${seconds(x)}`, "td", { class: simulated ? "n simulated" : "n" });
        const share = high > low ? 1 - (Math.log(of(c)) - Math.log(low)) / (Math.log(high) - Math.log(low)) : 1;
        cell.style.background = `color-mix(in srgb, var(--c0) ${Math.round(4 + 32 * share)}%, var(--card))`;
        return cell;
      })))))));
}
