// Best of n, or a bigger model? Accuracy of strategies of inference against dollars, joules and seconds, with limits that can be moved.
import { h, fill, tell } from "../dom.js";
import { workPage } from "./work.js";
import { state, START } from "../state.js";
import { setField } from "../yaml.js";
import { at as pick, digits, joules, money, seconds } from "../format.js";
import { axes, draggable, figure, figures, grid, legend, lines, sized } from "../plots.js";

export const title = "Reason";
const percent = (x) => `${digits(100 * x, 3)} %`, usd = (x) => money(Number(x.toPrecision(3))), count = (x) => digits(x, 4);
/** Objective → [words, path of a candidate, its band, how it is told, better where higher]. @type {Record<string, [string, string, string, (x: number) => string, boolean]>} */
const FIGURE = { accuracy: ["accuracy", "accuracy", "accuracy_interval", percent, true], cost_per_task: ["USD a problem", "cost_usd", "intervals.cost_usd", usd, false], joules_per_task: ["joules a problem", "energy_j", "intervals.energy_j", joules, false],
  latency_p50_s: ["median latency", "latency_s.p50", "intervals.latency_p50_s", seconds, false], latency_p99_s: ["99 % latency", "latency_s.p99", "intervals.latency_p99_s", seconds, false], deadline_met: ["problems in time", "deadline_met", "intervals.deadline_met", percent, true] };
const ACROSS = ["cost_per_task", "latency_p99_s", "latency_p50_s", "joules_per_task"];

/** @param {any} page */
export async function show(page) {
  return workPage(page, { title: "Reason", verb: "reason", start: "Compare strategies", comes: [["cloud", "table"], ["accuracy against dollars, joules and seconds", "the best candidate within limits to move", "what a checker is worth", "own devices against an API"], "Some seconds for some hundred problems. It can be stopped."], question: "Strategies of a “programs” section, each as the calls that it makes on your devices: accuracy against dollars, joules and seconds, what no other candidate beats, and what keeps to your limits.", draw(answer, at) {
    const r = answer.result, known = (name) => r.candidates.some((p) => typeof pick(p, FIGURE[name][1]) === "number");
    const refused = (r.refused || []).map((one) => `${one.label} on ${one.model}: ${one.why}`), notes = [...new Set(r.candidates.flatMap((p) => p.notes.map((n) => `${p.label}: ${n}`)))];
    fill(at, head(r), [...refused, ...notes, ...(r.warnings || [])].map((w) => h("div", { class: "warning" }, w)), front(r, known),
      inTime(r), budgets(r), worth(r), sizes(r), reading(r), even(r), assumed(r));
  } });
}

/** @param {any} r */
function head(r) {
  const kept = Object.entries(r.limits || {}).map(([name, x]) => `${FIGURE[name]?.[0] || name} ${FIGURE[name]?.[4] ? "≥" : "≤"} ${FIGURE[name] ? FIGURE[name][3](x) : x}`).join(", "), of = FIGURE[r.objective] || [r.objective];
  const known = !r.candidates.some((p) => typeof p.accuracy === "number") ? [] : Object.entries(r.population || {}).map(([model, p]) => `${model ? `${model}: one` : "One"} attempt is right with ${percent(p.pass_1)} (${p.grade}: ${p.why}). ${(p.notes || []).map((n) => `${n[0].toUpperCase()}${n.slice(1)}. `).join("")}`);
  return h("section", { class: "card" }, h("p", {}, r.best ? [`Best ${of[0]}${kept ? ` within ${kept}` : ""}: `, h("strong", {}, r.best.label), " on ", h("strong", {}, r.best.model), "."] : h("strong", {}, kept ? `No candidate keeps ${kept}.` : `No candidate has a figure for ${of[0]}.`)),
    r.best ? figures(r, [["accuracy", "best.accuracy", percent], ["USD a problem", "best.cost_usd", usd], ["energy a problem", "best.energy_j", joules], ["latency, median", "best.latency_s.p50", seconds], ["latency, 99 %", "best.latency_s.p99", seconds], ["tokens a problem", "best.tokens", count], ["problems in time", "best.deadline_met", percent], ["devices", "best.num_devices", count], ["problems simulated", "problems", count]]) : null,
    h("p", { class: "muted" }, known, known.length ? "Accuracy comes from this law and is never simulated; dollars, joules and seconds come from the run." : "Nothing says how often these programs end right; dollars, joules and seconds come from the run."));
}

/** Whether a candidate keeps all limits; what is not known keeps none. @param {any} p @param {Record<string, number>} limits */
function keeps(p, limits) {
  return Object.entries(limits).every(([name, limit]) => { if (!FIGURE[name]) return true; const x = pick(p, FIGURE[name][1]); return typeof x === "number" && (FIGURE[name][4] ? x >= limit : x <= limit); });
}

/** The best candidate by an objective within limits; of equally good ones the cheapest, -1 for none. @param {any} r @param {string} objective @param {Record<string, number>} limits */
export function bestOf(r, objective, limits) {
  const [, path, , , up] = FIGURE[objective];
  let best = -1;
  r.candidates.forEach((p, i) => {
    const x = pick(p, path);
    if (typeof x !== "number" || !keeps(p, limits)) return;
    const b = best < 0 ? null : r.candidates[best], better = b && (up ? x - pick(b, path) : pick(b, path) - x);
    if (!b || better > 0 || (better === 0 && (p.cost_usd ?? Infinity) < (b.cost_usd ?? Infinity))) best = i;
  });
  return best;
}

/** Candidates of one line: strategy with the knobs that differ, but for the number of attempts; plan and model likewise. @param {any} r @param {any} p */
function series(r, p) {
  const same = r.candidates.filter((q) => q.strategy === p.strategy), how = (q) => q.method || q.label, plan = (q) => (how(q).includes("), ") ? how(q).slice(how(q).lastIndexOf("), ") + 3) : ""), parts = r.candidates.some((q) => q.strategy !== p.strategy) ? [p.strategy] : [];
  for (const [name, value] of Object.entries(p.knobs)) if (name !== "n" && same.some((q) => JSON.stringify(q.knobs[name]) !== JSON.stringify(value))) parts.push(String(value));
  if (plan(p) && r.candidates.some((q) => plan(q) !== plan(p))) parts.push(plan(p));
  if (typeof p.load === "number" && r.candidates.some((q) => q.n !== p.n)) parts.push(`${digits(p.load)} ${(r.load_unit || "").replace(/^problems /, "")}`);
  if (r.candidates.some((q) => q.model !== p.model)) parts.push(p.model.split("/").pop());
  return parts.join(", ") || p.strategy;
}

/** The front with limits, and the candidates. @param {any} r @param {(name: string) => boolean} known */
function front(r, known) {
  const limits = { ...r.limits }, names = Object.keys(FIGURE).filter(known), across = h("select", { "aria-label": "Across", onchange: () => plot.redraw() }, ACROSS.filter(known).map((n) => h("option", { value: n }, FIGURE[n][0])));
  const objective = h("select", { "aria-label": "Best by", onchange: () => say() }, names.filter((n) => n !== "deadline_met").map((n) => h("option", { value: n, selected: n === r.objective }, FIGURE[n][0])));
  if (!names.includes(r.objective)) objective.value = names[0];
  const lists = [...new Set(r.candidates.map((p) => series(r, p)))], told = h("p", { class: "best", role: "status" }), table = h("div", {});
  const rows = r.candidates.map((p, i) => ({ p, i })), ends = Object.fromEntries(names.map((n) => { const all = rows.map(({ p }) => pick(p, FIGURE[n][1])).filter((x) => typeof x === "number"); return [n, [Math.min(...all), Math.max(...all)]]; }));
  let marks = [], handles = {};
  const drawable = known("accuracy"), plot = sized((wide) => {
    const name = across.value, [label, path, band, how] = FIGURE[name], seen = rows.filter(({ p }) => typeof p.accuracy === "number" && pick(p, path) > 0);
    if (!seen.length) return h("p", { class: "muted" }, `No candidate has both accuracy and ${label}.`);
    const xs = seen.flatMap(({ p }) => [pick(p, path), pick(p, `${band}.low`), pick(p, `${band}.high`)]).filter((x) => x > 0), ys = seen.flatMap(({ p }) => [p.accuracy, p.accuracy_interval?.low, p.accuracy_interval?.high]).filter((x) => typeof x === "number").map((y) => 100 * y);
    const drawn = axes({ wide, tall: Math.max(320, Math.min(430, wide * 0.5)), reached: true, xLog: Math.max(...xs) / Math.min(...xs) > 5, title: `Accuracy against ${label} of ${seen.length} candidates with their bands, and limits that can be moved; the table below has the figures`, xName: label, yName: "problems that end right, %", xWords: how, yWords: (y) => digits(y, 3), xs, ys });
    marks = [];
    lists.forEach((list, k) => {
      const own = seen.filter(({ p }) => series(r, p) === list).sort((a, b) => (a.p.n ?? 0) - (b.p.n ?? 0)), at = (p) => [drawn.x.place(pick(p, path)), drawn.y.place(100 * p.accuracy)];
      if (own.length > 1) drawn.svg.append(h("polyline", { class: `s${k % 6} thin`, points: own.map(({ p }) => at(p).map((v) => v.toFixed(1)).join(",")).join(" ") }));
      for (const { p, i } of own) {
        const [x, y] = at(p), low = pick(p, `${band}.low`), high = pick(p, `${band}.high`), a = p.accuracy_interval, group = h("g", { class: "candidate" });
        if (a && a.high > a.low) group.append(h("line", { class: `s${k % 6} range`, x1: x, x2: x, y1: drawn.y.place(100 * a.low), y2: drawn.y.place(100 * a.high) }));
        if (low > 0 && high > low) group.append(h("line", { class: `s${k % 6} range`, x1: drawn.x.place(low), x2: drawn.x.place(high), y1: y, y2: y }));
        group.append(h("circle", { class: p.on_front ? `k${k % 6}` : `s${k % 6} hollow`, cx: x, cy: y, r: p.on_front ? 5.5 : 4.5 }), h("title", {}, `${p.label}\n${p.model}\n${percent(p.accuracy)}, ${how(pick(p, path))}${p.on_front ? "\nno other candidate beats it" : ""}`));
        if (p.n !== null && p.n !== undefined && own.length > 1 && (p.on_front || own.length < 5)) group.append(h("text", { class: "soft small", x: x - 7, y: y - 7, "text-anchor": "end" }, `n = ${digits(p.n)}`));
        drawn.svg.append(group); marks.push([i, group]);
      }
    });
    handles = { accuracy: draggable(drawn, { axis: "y", label: "Least accuracy", value: 100 * (limits.accuracy ?? -1), say: () => (limits.accuracy === undefined ? "no limit on accuracy" : `at least ${percent(limits.accuracy)}`), moved: (y) => limit("accuracy", y / 100) }),
      [name]: draggable(drawn, { axis: "x", log: true, label: `Most ${label}`, value: limits[name] ?? 1e99, say: () => (limits[name] === undefined ? "no limit" : `at most ${how(limits[name])}`), moved: (x) => limit(name, x) }) };
    dim();
    return drawn.svg;
  });
  const sliders = names.map((name) => {
    const [label, , , how, up] = FIGURE[name], [low, high] = ends[name], log = !up && low > 0, place = (x) => (log ? Math.log(x / low) / Math.log(high / low) : (x - low) / (high - low)), back = (t) => (log ? low * (high / low) ** t : low + (high - low) * t);
    const now = h("span", { class: "now" }), input = h("input", { type: "range", min: 0, max: 1000, disabled: !(high > low), oninput: () => { const t = input.value / 1000, none = up ? t <= 0 : t >= 1; limit(name, none ? undefined : back(t) * (up ? 1 - 1e-9 : 1 + 1e-9)); handles[name]?.put(limits[name] === undefined ? (up ? -1 : 1e99) : (name === "accuracy" ? 100 : 1) * limits[name]); } });
    return { name, node: h("label", { class: "slider" }, up ? `${label} at least` : `${label} at most`, " ", input, " ", now), show: () => { const x = limits[name], t = x === undefined ? (up ? 0 : 1) : Math.max(0, Math.min(1, place(x))); if (document.activeElement !== input) input.value = Math.round(1000 * t); now.textContent = x === undefined ? "no limit" : how(x); input.setAttribute("aria-valuetext", now.textContent); } };
  });
  function limit(name, value) {
    const [low, high] = ends[name] || [0, 0], up = FIGURE[name][4];
    if (value === undefined || (up ? value < low : value > high * 1.05)) delete limits[name]; else limits[name] = value;
    say();
  }
  function dim() { for (const [i, group] of marks) group.classList.toggle("out", !keeps(r.candidates[i], limits)); }
  function say() {
    for (const s of sliders) s.show();
    dim();
    const best = bestOf(r, objective.value, limits), left = rows.filter(({ p }) => keeps(p, limits)).length, p = r.candidates[best], f = (path, how) => figure(r, `candidates.${best}.${path}`, how);
    if (p) fill(told, `${left} of ${rows.length} candidates keep to these limits; best ${FIGURE[objective.value][0]}: `, h("strong", {}, p.label), ` on ${p.model}: `, p.accuracy === null ? "accuracy not known, " : [f("accuracy", percent), " right, "], f("cost_usd", usd), " USD, ", f("energy_j", joules), ", median ", f("latency_s.p50", seconds), ", 99 % ", f("latency_s.p99", seconds), ".");
    else fill(told, h("strong", {}, "No candidate keeps to these limits"), ": give one of them up.");
    fill(table, candidates(r, (q) => keeps(q, limits), best));
  }
  const write = h("button", { onclick: () => {
    let text = state.text || START;
    for (const [name, value] of [["search.objective", objective.value], ...Object.entries(limits).map(([n, x]) => [n === "deadline_met" ? "programs.deadline_share" : `search.limits.${n}`, Number(x.toPrecision(4))])]) text = setField(text, name, value);
    Object.assign(state, { text, answer: null }); tell("written"); location.hash = "#/scenario";
  } }, "Write these limits into the scenario");
  const card = h("section", { class: "card" }, h("h2", {}, drawable ? "Front" : "Limits"), drawable ? h("p", { class: "muted" }, "Each mark is a candidate with the bands of its figures; lines follow the number of attempts. Filled: no other candidate is as good in everything and better in something. The red lines are limits: drag them, or move them with the arrow keys.") : null,
    h("div", { class: "row" }, sliders.map((s) => s.node)), h("div", { class: "row" }, drawable ? h("label", {}, "across ", across) : null, h("label", {}, "best by ", objective), write), told, drawable && lists.length > 1 ? legend(lists) : null, drawable ? plot : null);
  say();
  return [card, table];
}

/** A figure with its band below. @param {any} r @param {string} at @param {string} name */
function banded(r, at, name) {
  const [, path, band, how] = FIGURE[name], own = pick(r, `${at}.${band}`);
  return h("span", {}, figure(r, `${at}.${path}`, how), own && own.high > own.low ? h("span", { class: "range" }, " ", figure(r, `${at}.${band}.low`, how), " – ", figure(r, `${at}.${band}.high`, how)) : null);
}

/** @param {any} r @param {(p: any) => boolean} kept @param {number|null} best */
function candidates(r, kept, best) {
  const several = r.candidates.some((p) => p.model !== r.candidates[0].model), shown = Object.keys(FIGURE).filter((name) => r.candidates.some((p) => typeof pick(p, FIGURE[name][1]) === "number")), f = (i, path, how) => figure(r, `candidates.${i}.${path}`, how);
  const cell = (p, i) => { const at = `candidates.${i}`; return [h("span", { class: kept(p) ? "" : "muted" }, i === best ? "★ " : p.on_front ? "● " : "", p.label), ...(several ? [h("span", {}, p.model)] : []), ...shown.map((name) => banded(r, at, name)), f(i, "tokens", count), f(i, "calls", count), f(i, "num_devices", count), f(i, "busy_share", percent), h("span", { class: p.saturated ? "bad" : "" }, f(i, "saturated", (x) => (x ? "yes" : "no")))]; };
  return h("section", { class: "card candidates" }, h("h2", {}, "Candidates"), h("p", { class: "muted" }, "★ best within the limits · ● no other candidate beats it · grey: outside the limits. Below each figure its band."),
    grid(["strategy", ...(several ? ["model"] : []), ...shown.map((name) => FIGURE[name][0]), "tokens a problem", "calls a problem", "devices", "devices busy", "saturated"], r.candidates.map(cell), "Candidates"));
}

/** How many at once, or a second, before the deadline breaks. @param {any} r */
function inTime(r) {
  const all = r.answers?.most_in_time || [], seen = r.candidates.map((p, i) => ({ p, i })).filter(({ p }) => typeof p.load === "number" && typeof p.deadline_met === "number");
  if (!all.length || new Set(seen.map(({ p }) => p.load)).size < 2) return null;
  const name = (p) => `${p.method || p.strategy}${r.candidates.some((q) => q.model !== p.model) ? `, ${p.model.split("/").pop()}` : ""}`, lists = [...new Set(seen.map(({ p }) => name(p)))], f = (i, field, how) => figure(r, `answers.most_in_time.${i}.${field}`, how);
  return h("section", { class: "card" }, h("h2", {}, "How many before the deadline breaks?"), h("p", { class: "muted" }, `Share of problems that end within ${seconds(r.deadline_s)}, and the load at which ${percent(all[0].share)} of them still do.`), lists.length > 1 ? legend(lists) : null,
    sized((wide) => {
      const loads = seen.map(({ p }) => p.load), drawn = lines({ wide, tall: 280, xLog: Math.max(...loads) / Math.min(...loads) > 5, title: `Problems in time against ${r.load_unit}, ${seen.length} candidates; the table of candidates has the figures`, xName: r.load_unit, yName: "problems in time, %", xWords: (x) => digits(x, 3), yWords: (y) => digits(y, 3), also: [0, 100],
        lines: lists.map((list) => ({ name: list, points: seen.filter(({ p }) => name(p) === list).sort((a, b) => a.p.load - b.p.load).map(({ p }) => [p.load, 100 * p.deadline_met]) })) }), y = drawn.y.place(100 * all[0].share);
      drawn.svg.append(h("line", { class: "limit", x1: drawn.left, x2: drawn.right, y1: y, y2: y }), h("text", { class: "soft", x: drawn.left + 4, y: y + 14 }, percent(all[0].share)));
      return drawn.svg;
    }),
    grid(["strategy", "model", `most ${r.load_unit} that keep it`, "least that do not", "the border is at about", "USD a problem there"], all.map((m, i) => [m.label, m.model, m.load === null ? h("span", { class: "muted" }, "not even the least") : f(i, "load", count), m.breaks_at === null ? h("span", { class: "muted" }, "none of these") : f(i, "breaks_at", count), f(i, "between", count), f(i, "cost_usd", usd)]), "How many before the deadline breaks"));
}

/** Work and reading of the cache, in FLOP of their time. @param {any} r */
function reading(r) {
  const steps = r.answers?.accuracy_at_eflop || [], f = (i, field, how) => figure(r, `answers.accuracy_at_eflop.${i}.${field}`, how);
  if (steps.length < 2) return null;
  return h("section", { class: "card" }, h("h2", {}, "Model size against samples"), h("p", { class: "muted" }, "From each budget on, until the next: FLOP of a problem, with bytes read from the cache as the FLOP of their time (Kinetics). They depend on the model and its lengths, not on what devices cost."),
    grid(["from FLOP a problem", "accuracy", "of it reading", "strategy", "model"], steps.map((s, i) => [f(i, "eflop", (x) => `${digits(x / 1e12, 4)} T`), f(i, "accuracy", percent), f(i, "share_of_reading", percent), s.label, s.model]), "Model size against samples"));
}

/** @param {any} r */
function budgets(r) {
  const steps = r.answers?.accuracy_at_cost || [];
  if (steps.length < 2) return null;
  return h("section", { class: "card" }, h("h2", {}, "Best at a budget"), h("p", { class: "muted" }, "From each budget on, until the next."), grid(["from USD a problem", "accuracy", "strategy", "model"], steps.map((s, i) => [figure(r, `answers.accuracy_at_cost.${i}.cost_usd`, usd), figure(r, `answers.accuracy_at_cost.${i}.accuracy`, percent), s.label, s.model]), "Best at a budget"));
}

/** @param {any} r */
function worth(r) {
  const all = r.answers?.verifier_worth || [], f = (i, name, how) => figure(r, `answers.verifier_worth.${i}.${name}`, how);
  if (!all.length) return null;
  const reach = (i, name) => (all[i][name] === null ? h("span", { class: "muted" }, "not reached") : f(i, name, usd));
  return h("section", { class: "card" }, h("h2", {}, "What a verifier is worth"), h("p", { class: "muted" }, "What the same accuracy costs without scores, on the same model: above zero, the verifier pays for itself. “Not reached”: no number of attempts without scores gets there."),
    grid(["strategy", "model", "accuracy", "USD with scores", "USD without", "worth of the scores, USD a problem"], all.map((w, i) => [w.label, w.model, f(i, "accuracy", percent), f(i, "cost_usd", usd), reach(i, "cost_without_usd"), h("span", { class: w.worth_usd === null ? "" : w.worth_usd > 0 ? "good" : "bad" }, reach(i, "worth_usd"))]), "What a verifier is worth"));
}

/** @param {any} r */
function sizes(r) {
  const all = r.answers?.cheapest_model || [], models = [...new Set(all.flatMap((s) => Object.keys(s.cost_usd)))];
  if (!all.length) return null;
  return h("section", { class: "card" }, h("h2", {}, "Which model for an accuracy?"), h("p", { class: "muted" }, "USD a problem for which each model reaches it."),
    grid(["accuracy", "cheapest", ...models], all.map((s, i) => [figure(r, `answers.cheapest_model.${i}.accuracy`, percent), s.cheapest, ...models.map((m) => (s.cost_usd[m] === undefined ? h("span", { class: "muted" }, "not reached") : h("span", {}, usd(s.cost_usd[m]))))]), "Which model for an accuracy"));
}

/** Own devices or an API: dollars a day over tokens a day. @param {any} r */
function even(r) {
  const all = r.answers?.break_even || [], f = (i, name, how) => figure(r, `answers.break_even.${i}.${name}`, how), share = "share_of_capacity_interval";
  if (!all.length) return h("section", { class: "card" }, h("h2", {}, "Own devices or an API?"), h("p", { class: "muted" }, "State what an API asks, in USD a million tokens, and this page says above how many tokens a day own devices are cheaper: ", h("code", {}, "programs: {api_price: {input: 0.6, output: 0.8}}"), "."));
  const which = h("select", { "aria-label": "Candidate", onchange: () => plot.redraw() }, all.map((e, i) => h("option", { value: i }, `${e.label} on ${e.model}`)));
  const plot = sized((wide) => {
    const e = all[Number(which.value)], p = r.candidates.find((q) => q.label === e.label && q.model === e.model), own = e.own_usd_a_problem_at_full_use, tokens = p.tokens, most = (e.tokens_a_day / e.share_of_capacity), daily = (own * most) / tokens, top = Math.max(most, 1.6 * e.tokens_a_day);
    const drawn = lines({ wide, tall: 280, title: `Dollars a day against generated tokens a day: own devices cost ${usd(daily)} USD a day at any load up to their capacity of ${digits(most, 3)} tokens a day, the API ${usd((e.api_usd_a_problem / tokens) * 1e6)} USD a million; the table below has the figures`, xName: "generated tokens a day", yName: "USD a day", xWords: (x) => `${digits(x / 1e6, 3)} M`, yWords: (y) => digits(y, 3),
      lines: [{ name: "own devices", points: [[0, daily], [most, daily]] }, { name: "API", points: [[0, 0], [top, (e.api_usd_a_problem / tokens) * top]] }] });
    const at = (x, words, high) => { const px = drawn.x.place(x), right = px > (drawn.left + drawn.right) / 2; drawn.svg.append(h("line", { class: "limit", x1: px, x2: px, y1: drawn.top, y2: drawn.bottom }), h("text", { class: "soft", x: px + (right ? -5 : 5), y: drawn.top + (high ? 10 : 26), "text-anchor": right ? "end" : "start" }, words)); };
    at(most, "all that the devices can do", true); at(e.tokens_a_day, "even", false);
    return drawn.svg;
  });
  return h("section", { class: "card" }, h("h2", {}, "Own devices or an API?"), h("p", { class: "muted" }, "Devices are paid for whether they are busy or not, an API by the token: above the even point own devices are cheaper. The share says how much of their capacity that is, with the band of their throughput; above 100 % they never are."),
    h("div", { class: "row" }, h("label", {}, "candidate ", which)), legend(["own devices", "API"]), plot,
    grid(["strategy", "model", "API, USD a problem", "own at full use, USD a problem", "even at, tokens a day", "problems a day", "share of the capacity", "own devices are cheaper"], all.map((e, i) => [e.label, e.model, f(i, "api_usd_a_problem", usd), f(i, "own_usd_a_problem_at_full_use", usd), f(i, "tokens_a_day", (x) => `${digits(x / 1e6, 4)} M`), f(i, "problems_a_day", count),
      h("span", {}, f(i, "share_of_capacity", percent), e[share] ? h("span", { class: "range" }, " ", f(i, `${share}.low`, percent), " to ", f(i, `${share}.high`, percent)) : null), f(i, "cheaper", (x) => (x ? "above it" : "never"))]), "Own devices or an API"));
}

/** @param {any} r */
function assumed(r) {
  return [r.assumed?.length ? h("details", { class: "card" }, h("summary", {}, `${r.assumed.length} ${r.assumed.length === 1 ? "setting was" : "settings were"} assumed`), grid(["field", "value", "why"], r.assumed.map((a) => [a.field, String(a.value), a.why]), "Assumed settings")) : null,
    r.citations?.length ? h("details", { class: "card" }, h("summary", {}, "Sources"), h("ul", {}, r.citations.map((c) => h("li", {}, c)))) : null];
}
