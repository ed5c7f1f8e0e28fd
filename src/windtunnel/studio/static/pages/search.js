// The best plan, with the proof that nothing is better.
import { h, fill, tell } from "../dom.js";
import { workPage, open } from "./work.js";
import { state, edited, START } from "../state.js";
import { setField } from "../yaml.js";
import { at as pick, seconds, digits } from "../format.js";
import { axes, figure, figures, grid, sized } from "../plots.js";
import { cloud } from "../charts.js";

export const title = "Search";
const gib = (x) => `${digits(x / 2 ** 30, 3)} GiB`, count = (x) => Number(x).toLocaleString("en");
/** What plans are drawn over: words, its value, and how it is told. @type {Record<string, [string, (f: any, more: any) => number|null, (x: number) => string]>} */
const ACROSS = { bound: ["lower bound, s", (f) => f.bound_s, seconds], memory: ["reserved memory, GiB", (f) => (f.reserved_bytes === null ? null : f.reserved_bytes / 2 ** 30), (x) => digits(x, 4)],
  devices: ["devices", (_, more) => more.devices, (x) => digits(x)], cost: ["USD a million tokens", (_, more) => more.cost, (x) => digits(x, 4)] };
const AXES = ["tp", "pp", "cp", "ep", "dp", "vpp", "mbs", "zero", "recompute"];

/** @param {any} page */
export async function show(page) {
  const free = h("input", { type: "checkbox" });
  return workPage(page, { title: "Search", verb: "plan", extra: [h("label", {}, free, " also search what the plan sets")], options: () => (free.checked ? { free: true } : {}), start: "Find the best plan", comes: [["cloud", "table", "bars"], ["the best plan with its step, memory and MFU", "the proof that nothing better was left out", "every plan that was simulated, with limits to move", "what each axis costs"], "Some seconds for hundreds of plans, about half a minute for thousands. It can be stopped."], question: "The best plan that keeps to the scenario's limits, as windtunnel plan finds it: axes that the plan sets stay, the others and those of the “search” section vary. Where the plan sets every axis, all are searched.", origin: (r, asked) => ({ of: (path) => behind(r, asked, path) }), draw(answer, at, again) {
    const r = answer.result, plan = r.recommended?.scenario || r.scenario;
    const begun = h("div", { class: "row" }, plan && typeof plan === "object" ? h("button", { class: "main", onclick: () => open(plan, "planned") }, "Open as scenario") : null);
    if (r.slo && Array.isArray(r.frontier)) { deployments(r, at, begun); return; }
    if (!r.proof || !Array.isArray(r.frontier)) { fill(at, h("div", { class: "card" }, begun)); return; }
    fill(at, h("div", { class: "card" }, answer.note ? h("p", { class: "muted" }, `${answer.note.replace(/^plan: the/, "The")}.`) : null, figures(r, [["best step", "best.step_time_s", seconds], ["its memory", "best.peak_memory_reserved_bytes", gib], ["its MFU", "best.mfu", (x) => `${digits(100 * x, 3)} %`],
      ["recommended step", "recommended.step_time_s", seconds]]), chosen(r), proof(r), space(r), begun), plans(r, again), heat(r), byAxis(r));
  } });
}

/** Figures of a plan rest on that plan's own step; counts and bounds of the search on nothing below them. @param {any} r @param {any} asked @param {string} path */
function behind(r, asked, path) {
  const own = path.match(/^(best|recommended)\.(.+)$/), listed = path.match(/^frontier\.(\d+)\.(step_time_s|reserved_bytes|fits)$/), of = (fields, result, at) => ({ text: JSON.stringify(fields), file: asked.file, verb: "train", result, path: at });
  if (own && r[own[1]]?.scenario) return of(r[own[1]].scenario, r[own[1]], own[2]);
  if (!listed || !r.scenario?.plan) return null;
  const f = r.frontier[listed[1]];
  return of(scenario(r, f), { step_time_s: f.step_time_s, peak_memory_reserved_bytes: f.reserved_bytes, memory_fits: f.fits }, { step_time_s: "step_time_s", reserved_bytes: "peak_memory_reserved_bytes", fits: "memory_fits" }[listed[2]]);
}

const SIMPLER = { kinds: "fewer kinds of parallelism", redone: "less recomputation or offloading", stages: "fewer virtual stages", switches: "fewer switches off the framework's defaults", inner: "layers cut over fewer devices" };

/** Why the recommended plan is not the fastest. @param {any} r */
function chosen(r) {
  const one = r.recommended;
  if (!one || one.same) return null;
  return h("p", {}, `The recommended plan is ${digits(100 * one.slower, 2)} % slower as simulated and simpler (${SIMPLER[one.differs[0]] || one.differs[0]}); `, typeof one.probability_fastest_faster === "number" ? ["the fastest is really faster with ", figure(r, "recommended.probability_fastest_faster", (x) => `${digits(100 * x, 2)} %`), " probability."] : "no measured pair of plans differs in these switches.");
}

/** @param {any} r */
function proof(r) {
  const p = r.proof, f = (name, words = count) => figure(r, `proof.${name}`, words), limits = Object.keys(p.pruned_by_limit || {});
  return h("p", { class: "proof" }, "Of ", f("candidates"), p.candidates === 1 ? " plan " : " plans ", [["pruned_by_memory", "do not fit the memory"], ...limits.map((n) => [`pruned_by_limit.${n}`, `break the limit on ${n.replaceAll("_", " ")}`]), ["pruned_by_bound", "cannot be better by their lower bound"], ["refused", "were refused"]].filter(([n]) => pick(p, n)).map(([n, w]) => [f(n), ` ${w}, `]), f("simulated"), p.simulated === 1 ? " was simulated. " : " were simulated. ",
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
const words = (plan) => [plan.device, ...AXES.filter((n) => plan[n] !== undefined && (n === "tp" || n === "pp" || (plan[n] !== 1 && plan[n] !== "none"))).map((n) => `${n} ${plan[n]}`)].filter(Boolean).join(" · ");

/** A plan with its device, where plans differ in it. @param {any} f */
const named = (f, many = true) => words(many && f.cluster?.device ? { device: f.cluster.device, ...f.plan } : f.plan);

/** Figures of a deployment: name → [words, path, how it is told, better where higher]. @type {Record<string, [string, string, (x: number) => string, boolean]>} */
const SERVED = { cost: ["USD an hour", "values.cost_per_hour", (x) => digits(x), false], devices: ["devices", "values.devices", (x) => digits(x), false], million: ["USD a million tokens", "values.cost_per_million_tokens", (x) => digits(x), false], goodput: ["goodput, requests/s", "values.goodput", (x) => digits(x), true], user: ["tokens/s a user", "values.tokens_per_s_per_user", (x) => digits(x), true],
  ttft: ["TTFT at the objective's percentile", "quantiles.ttft_s", seconds, false], tpot: ["TPOT at the objective's percentile", "quantiles.tpot_s", seconds, false] };

/** Deployments for a load. @param {any} r @param {any} at @param {any} begun */
function deployments(r, at, begun) {
  const p = r.proof, f = (name) => figure(r, `proof.${name}`, count), all = r.frontier.map((one, i) => ({ one, i })), known = Object.keys(SERVED).filter((n) => all.some(({ one }) => typeof pick(one, SERVED[n][1]) === "number")), limits = {};
  const keeps = (one) => Object.entries(limits).every(([n, x]) => { const v = pick(one, SERVED[n][1]); return typeof v !== "number" || (SERVED[n][3] ? v >= x : v <= x); }), plan = (one) => `${words({ ...one.plan, dp: 1 })} · ${one.plan.replicas ?? 1} ${(one.plan.replicas ?? 1) === 1 ? "instance" : "instances"} · ${[one.plan.engine, one.plan.weights].filter(Boolean).join(" ")}`;
  const said = [["bound", "cannot be better by their lower bound"], ["too_slow", "answer one request alone too slowly"], ["too_much", "have more work than time"], ["limits", "break a limit"], ["load", "have a load above one that their deployment failed at"], ["settled", "run exactly as another one"], ["refused", "do not start"]].filter(([n]) => p[n]);
  const select = (label, first) => h("select", { "aria-label": label, onchange: () => plot() }, known.map((n) => h("option", { value: n, selected: n === first }, SERVED[n][0]))), across = select("Across", "cost"), up = select("Up", known.includes("ttft") ? "ttft" : known[1]);
  const room = h("div", {}), table = h("div", {}), told = h("p", { class: "muted", role: "status" });
  let drawn = null;
  function plot() {
    const value = (n) => ({ one }) => pick(one, SERVED[n][1]);
    drawn = cloud({ rows: all, x: value(across.value), y: value(up.value), xName: across.value, yName: up.value, kinds: [], group: ({ one }) => [one.plan.device, one.missed?.length ? "misses the objective" : ""].filter(Boolean).join(", "), words: ({ one }) => `${plan(one)}\n${known.map((n) => `${SERVED[n][0]} ${SERVED[n][2](pick(one, SERVED[n][1]))}`).join("\n")}`, brush: (picked) => { for (const [n, [low, high]] of picked) limits[n] = SERVED[n][3] ? low : high; draw(); }, small: false, title: (n) => SERVED[n][0], told: (n, v) => SERVED[n][2](Number(v.toPrecision(3))) });
    fill(room, drawn.node); draw();
  }
  const sliders = known.map((n) => {
    const list = all.map(({ one }) => pick(one, SERVED[n][1])).filter((x) => typeof x === "number"), low = Math.min(...list), high = Math.max(...list), more = SERVED[n][3], now = h("span", { class: "now" });
    const input = h("input", { type: "range", min: 0, max: 1000, disabled: !(high > low), oninput: () => { const t = input.value / 1000; if (more ? t <= 0 : t >= 1) delete limits[n]; else limits[n] = low + (high - low) * t; draw(); } });
    return { node: h("label", { class: "slider" }, `${SERVED[n][0]} at ${more ? "least" : "most"} `, input, " ", now), show: () => { const x = limits[n]; if (document.activeElement !== input) input.value = x === undefined ? (more ? 0 : 1000) : Math.round((1000 * (x - low)) / (high - low || 1)); now.textContent = x === undefined ? "no limit" : SERVED[n][2](x); input.setAttribute("aria-valuetext", now.textContent); } };
  });
  function draw() {
    const kept = all.filter(({ one }) => keeps(one));
    for (const s of sliders) s.show();
    drawn?.mark(({ one }) => keeps(one));
    told.textContent = `${kept.length} of ${all.length} deployments keep to these limits.`;
    fill(table, grid(["deployment", ...known.map((n) => SERVED[n][0]), "requests within the objective"], kept.map(({ one, i }) => [plan(one), ...known.map((n) => figure(r, `frontier.${i}.${SERVED[n][1]}`, SERVED[n][2])), figure(r, `frontier.${i}.share`, (x) => `${digits(100 * x, 3)} %`)]), "Deployments that were simulated"));
  }
  const slo = Object.entries({ "TTFT": r.slo.ttft_s, "TPOT": r.slo.tpot_s, "end to end": r.slo.e2e_s }).filter(([, x]) => typeof x === "number").map(([n, x]) => `${n} ≤ ${seconds(x)}`).join(", ");
  fill(at, h("section", { class: "card" }, r.best ? h("p", {}, "Best: ", h("strong", {}, plan(r.best)), slo ? `, for ${slo} of ${digits(100 * r.slo.percentile, 3)} % of requests.` : ".") : h("p", {}, "No deployment keeps the objective within the limits."),
    r.best ? figures(r, known.map((n) => [SERVED[n][0], `best.${SERVED[n][1]}`, SERVED[n][2]])) : null,
    h("p", { class: "proof" }, "Of ", f("candidates"), " deployments ", said.map(([n, w]) => [f(n), ` ${w}, `]), "and ", f("simulated"), " were simulated. ", p.complete ? "Nothing is left open: no deployment that was counted is better." : [f("open"), " are left open."]), begun, (r.notes || []).map((n) => h("p", { class: "muted" }, n))),
  all.length ? h("section", { class: "card" }, h("h2", {}, "Deployments that were simulated"), h("p", { class: "muted" }, "Those that nothing beats, and the ones beside them. Sliders, or a frame drawn in the chart, keep to limits."), h("div", { class: "row" }, sliders.map((s) => s.node)), h("div", { class: "row" }, h("label", {}, "across ", across), h("label", {}, "up ", up)), told, room, table) : null);
  if (all.length) plot();
}

/** @param {any} r @param {() => void} again searches the scenario of the editor once more */
function plans(r, again) {
  const many = new Set(r.frontier.map((f) => f.cluster?.device)).size > 1, called = (f) => named(f, many);
  const all = r.frontier.map((f, i) => ({ f, i })).sort((a, b) => Number(a.f.fits === false) - Number(b.f.fits === false)), capacity = pick(r, "best.memory.capacity_bytes"), told = h("p", { class: "muted", role: "status" });
  const highest = Math.max(...all.map(({ f }) => f.reserved_bytes || 0), capacity || 0), slowest = Math.max(...all.map(({ f }) => f.step_time_s)), fastest = Math.min(...all.map(({ f }) => f.step_time_s));
  const devices = (f) => (f.plan.tp || 1) * (f.plan.pp || 1) * (f.plan.cp || 1) * (f.plan.dp || 1), most = Math.max(...all.map(({ f }) => devices(f))), fewest = Math.min(...all.map(({ f }) => devices(f)));
  const costs = all.map(({ f }) => cost(r, f, devices(f))), priced = costs.filter((x) => x !== null), dearest = Math.max(...priced), cheapest = Math.min(...priced);
  const limit = { bytes: highest, s: slowest, devices: most, usd: dearest }, below = (x, least) => x === null || x <= least * 1.0000001;
  const left = () => all.filter(({ f, i }) => below(f.reserved_bytes, limit.bytes) && below(f.step_time_s, limit.s) && below(devices(f), limit.devices) && (!priced.length || below(costs[i], limit.usd)));
  const go = (f) => open(scenario(r, f), `planned ${called(f)}`);
  const table = h("div", {}), next = r.proof.next_bound, bounded = typeof next === "number" && r.proof.objective === "step_time";
  const across = h("select", { "aria-label": "Across", onchange: () => plot.redraw() }, Object.entries(ACROSS).map(([id, [words]]) => h("option", { value: id }, words)));
  const plot = sized((wide) => {
    const [name, of, say] = ACROSS[across.value], x = (e) => of(e.f, { devices: devices(e.f), cost: costs[e.i] });
    const seen = left().filter((e) => x(e) !== null && x(e) !== undefined), own = across.value === "bound";
    if (!seen.length) return h("p", { class: "muted" }, left().length ? `No plan that keeps to these limits has its ${name}.` : "No simulated plan keeps to these limits.");
    const drawn = axes({ wide, tall: 330, reached: true, title: `Step time against ${name} of ${seen.length} plans, each over its lower bound; the table below has the figures`, xName: name, yName: "step time, s", xWords: (v) => digits(v, 4), yWords: (v) => digits(v, 4),
      xs: [...seen.map(x), ...(own && bounded ? [next] : [])], ys: seen.flatMap(({ f }) => [f.step_time_s, f.bound_s]) });
    const upright = (at, words) => { const p = drawn.x.place(at), right = p > (drawn.left + drawn.right) / 2; if (p < drawn.right && p > drawn.left) drawn.svg.append(h("line", { class: "limit", x1: p, x2: p, y1: drawn.top, y2: drawn.bottom }), h("text", { class: "soft", x: p + (right ? -5 : 5), y: drawn.top - 4, "text-anchor": right ? "end" : "start" }, words)); };
    if (across.value === "memory" && capacity) upright((capacity * (r.memory_fraction ?? 1)) / 2 ** 30, `${digits(100 * (r.memory_fraction ?? 1), 3)} % of the device`);
    if (own && bounded) upright(next, "no other plan is below");
    for (const e of seen) {
      const { f, i } = e, cx = drawn.x.place(x(e)), y = drawn.y.place(f.step_time_s), b = drawn.y.place(f.bound_s), kind = f.fits === false ? "k4" : "k0", size = f.reserved_bytes === null ? "" : `, ${gib(f.reserved_bytes)}`;
      drawn.svg.append(h("line", { class: "over", x1: cx, x2: cx, y1: y, y2: b }), h("line", { class: "over", x1: cx - 5, x2: cx + 5, y1: b, y2: b }));
      const given = { class: `${kind} mark`, tabindex: 0, role: "button", "aria-label": `Open plan ${called(f)}: ${seconds(f.step_time_s)}${size}${f.fits === false ? ", does not fit" : ""}`, "data-path": `frontier.${i}.step_time_s`, "data-value": JSON.stringify(f.step_time_s), onclick: () => go(f), onkeydown: (k) => { if (k.key === "Enter" || k.key === " ") { k.preventDefault(); go(f); } } };
      drawn.svg.append(h(f.fits === false ? "rect" : "circle", f.fits === false ? { ...given, x: cx - 6, y: y - 6, width: 12, height: 12 } : { ...given, cx, cy: y, r: 7 }, h("title", {}, `${called(f)}\n${seconds(f.step_time_s)}, bound ${seconds(f.bound_s)}${size}\n${name} ${say(x(e))}`)));
    }
    return drawn.svg;
  });
  const draw = () => {
    const kept = left();
    told.textContent = `${kept.length} of ${all.length} plans are drawn or listed${r.proof.simulated > all.length ? `, the best of ${r.proof.simulated} that were simulated` : ""}.`;
    fill(table, grid(["plan", "step", "lower bound", "memory", "devices", "USD a million tokens", "fits", "open"], kept.map(({ f, i }) => [called(f), figure(r, `frontier.${i}.step_time_s`, seconds), figure(r, `frontier.${i}.bound_s`, seconds),
      figure(r, `frontier.${i}.reserved_bytes`, gib), digits(devices(f)), costs[i] === null ? "–" : digits(costs[i]), figure(r, `frontier.${i}.fits`, (x) => (x ? "yes" : "no")), h("button", { "aria-label": `Open plan ${called(f)}`, onclick: () => go(f) }, "open")]), "Plans that were simulated"));
    plot.redraw();
  };
  const moved = new Set(), written = { bytes: ["memory_fraction", (x) => Math.min(1, x / capacity)], s: ["step_time", (x) => x], devices: ["devices", (x) => Math.max(1, Math.floor(x + 1e-6))], usd: ["cost_per_million_tokens", (x) => x] };
  const anew = h("button", { disabled: true, title: "Writes them into the scenario's search section", onclick: () => {
    const text = [...moved].filter((key) => key !== "bytes" || capacity).reduce((t, key) => setField(t, `search.limits.${written[key][0]}`, Number(written[key][1](limit[key]).toPrecision(4))), state.text || START);
    edited(text, "limits"); again();
  } }, "Search again with these limits");
  const slider = (name, key, low, high, say, unit, size) => {
    const disabled = !(high > low), shown = (x) => Number((x / size).toPrecision(4));
    const range = h("input", { type: "range", "aria-label": name, min: 0, max: 1000, value: 1000, disabled, "aria-valuetext": say(high), oninput: () => set(low + ((high - low) * range.value) / 1000, range) });
    const typed = h("input", { type: "number", "aria-label": `limit on ${name.replace(" at most", "")}, ${unit || "number"}`, step: "any", min: 0, value: shown(high), onchange: () => { if (typed.value !== "") set(typed.value * size * (1 + 1e-3), typed); } });
    const set = (x, by) => { limit[key] = x; moved.add(key); anew.disabled = false; if (by !== typed) typed.value = shown(x); if (by !== range && high > low) range.value = (1000 * (x - low)) / (high - low); range.setAttribute("aria-valuetext", say(x)); draw(); tell(told.textContent); };
    return h("span", { class: "slider" }, name, " ", range, " ", typed, ` ${unit}`);
  };
  const lowest = Math.min(...all.map(({ f }) => f.reserved_bytes ?? Infinity));
  const card = h("section", { class: "card" }, h("h2", {}, "Plans that were simulated"), h("p", { class: "muted" }, "Each mark is a plan; the stem under it goes down to its lower bound. Squares do not fit the limits.", bounded ? " Right of the upright line lie the bounds of all plans that were not simulated." : "", " A mark opens as a scenario. A plan that was simulated for its time alone has no memory here."),
    h("div", { class: "row" }, slider("memory at most", "bytes", Number.isFinite(lowest) ? lowest : 0, highest, gib, "GiB", 2 ** 30), slider("step at most", "s", fastest, slowest, seconds, "s", 1), slider("devices at most", "devices", fewest, most, (x) => digits(Math.floor(x + 1e-6)), "", 1), priced.length ? slider("cost at most", "usd", cheapest, dearest, (x) => `${digits(x)} USD a million tokens`, "USD a million tokens", 1) : null, anew), h("div", { class: "row" }, h("label", {}, "across ", across)), told, plot, table);
  draw();
  return card;
}

/** Over which axes the proof speaks. @param {any} r */
function space(r) {
  const varied = Object.entries(r.searched || {}).filter(([, values]) => values.length > 1), kept = Object.entries(r.not_searched || {}).filter(([, why]) => why.includes("as the plan states it"));
  return [h("p", {}, varied.length ? `Searched: ${varied.map(([n, values]) => `${n} (${values.length > 6 ? `${values.length} values` : values.join(", ")})`).join(", ")}. ` : "No axis was searched. ", kept.length ? h("strong", {}, `Kept as the plan sets them: ${kept.map(([n]) => n).join(", ")}; nothing is said of other values.`) : null),
    Object.keys(r.not_searched || {}).length ? h("details", {}, h("summary", {}, "What was not searched, and why"), h("ul", {}, Object.entries(r.not_searched).map(([n, why]) => h("li", {}, h("strong", {}, n), ` ${why}`)))) : null];
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
        const simulated = c.simulated_s !== null, cell = figure(r, `why.cells.${c.i}.${simulated ? "simulated_s" : "bound_s"}`, (x) => `${simulated ? "" : "≥ "}${seconds(x)}`, "span");
        const share = high > low ? 1 - (Math.log(of(c)) - Math.log(low)) / (Math.log(high) - Math.log(low)) : 1;
        const box = h("td", { class: simulated ? "n simulated" : "n" }, cell);
        box.style.background = `color-mix(in srgb, var(--c0) ${Math.round(4 + 32 * share)}%, var(--card))`;
        return box;
      })))))));
}

/** Money for a million tokens, from the price in the best plan's; none for devices of another kind. @param {any} r @param {any} f @param {number} devices */
function cost(r, f, devices) {
  const b = r.best;
  if (typeof b?.cost_per_million_tokens !== "number" || (f.cluster?.device && b.scenario?.cluster?.device && f.cluster.device !== b.scenario.cluster.device)) return null;
  return (b.cost_per_million_tokens * (devices / b.num_devices) * b.tokens_per_s) / f.tokens_per_s;
}

/** No plan with this value of an axis can be faster than this. @param {any} r */
function byAxis(r) {
  const axes = Object.entries(r.by_axis || {}).filter(([, values]) => Object.keys(values).length > 1);
  if (!axes.length) return null;
  return h("section", { class: "card" }, h("h2", {}, "Least bound by axis"), h("p", { class: "muted" }, "No plan with this value of the axis can be faster than its lower bound."),
    h("div", { class: "pair" }, axes.map(([axis, values]) => grid([axis, "lower bound"], Object.keys(values).map((v) => [v, v.includes(".") ? seconds(values[v]) : figure(r, `by_axis.${axis}.${v}`, seconds)]), `Least bound by ${axis}`))));
}
