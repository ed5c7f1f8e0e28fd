// Where a number comes from: a panel with data sheet × coefficients, sources, confidence, interval and assumptions. Any figure of a page opens it.
import { h, fill, tell } from "./dom.js";
import { call } from "./api.js";
import { at as pick, digits, rate, seconds, shown } from "./format.js";
import { figure } from "./plots.js";

/** Rooms of pages → the answer that their figures belong to. @type {WeakMap<any, any>} */
const ROOMS = new WeakMap();
const UNITS = [[/accuracy(_interval\.(low|high))?$|busy_share|deadline_met|share_of_capacity(_interval\.(low|high))?$/, "%"], [/usd(_a_day|_per_day|_a_problem)?$|_usd/, "USD"], [/energy_j$/, "J"], [/_s(\.|$)|_s\.p\d|^breakdown\.|^seconds\./, "s"], [/bytes|at_peak/, "bytes"], [/^(mfu|hfu|goodput|slo_attainment|badput\..*|kv_cache_usage.*)$/, "%"], [/days/, "days"]];
const bytes = (x) => shown(x, "bytes"), unitOf = (path) => (/per_s/.test(path) ? "" : (UNITS.find(([p]) => p.test(path)) || [, ""])[1]);

/** Figures below this node belong to an answer. @param {any} node @param {any} what text, file, verb, result, options; `of(path)`: another answer for a path, null for none @returns {any} */
export function from(node, what) { ROOMS.set(node, what); return node; }

/** @param {any} node */
function answerOf(node) {
  for (let at = node; at; at = at.parentElement) if (ROOMS.has(at)) return ROOMS.get(at);
  return null;
}

/** Let figures of a page open the panel: by click, by Enter or space; in tables arrow keys go from figure to figure. @param {any} room */
export function openable(room) {
  const arm = () => {
    for (const node of room.querySelectorAll("[data-path]:not([data-armed])")) {
      const own = answerOf(node);
      if (node.closest("svg") || !own || node.dataset.value === "null" || (own.of && !own.of(node.dataset.path))) continue;
      const first = !node.closest("table")?.querySelector("[data-armed]");
      for (const [name, value] of [["data-armed", ""], ["role", "button"], ["aria-haspopup", "dialog"], ["tabindex", first ? 0 : -1]]) node.setAttribute(name, value);
    }
  };
  new MutationObserver(arm).observe(room, { childList: true, subtree: true });
  room.addEventListener("click", (e) => { const node = e.target.closest?.("[data-armed]"); if (node && !getSelection()?.toString()) open(node); });
  room.addEventListener("keydown", (e) => {
    const node = e.target;
    if (!node.matches?.("[data-armed]")) return;
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); open(node); }
    const next = neighbour(node, e.key);
    if (next) { e.preventDefault(); node.setAttribute("tabindex", -1); next.setAttribute("tabindex", 0); next.focus(); }
  });
}

/** The figure of a table beside another. @param {any} node @param {string} key */
function neighbour(node, key) {
  const table = node.closest("table"), cell = node.closest("td, th");
  if (!table || !cell) return null;
  const all = [...table.querySelectorAll("[data-armed]")], i = all.indexOf(node);
  if (key === "ArrowRight" || key === "ArrowLeft") return all[i + (key === "ArrowRight" ? 1 : -1)];
  if (key !== "ArrowDown" && key !== "ArrowUp") return null;
  let row = cell.parentElement;
  while ((row = key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling)) { const found = row.cells[cell.cellIndex]?.querySelector("[data-armed]"); if (found) return found; }
  return null;
}

/** @param {any} node */
function open(node) {
  const own = answerOf(node), path = node.dataset.path, other = own.of?.(path);
  const asked = other || { ...own, path }, dialog = document.getElementById("origin");
  const label = node.closest(".figure")?.querySelector(".name")?.textContent || node.closest("tr")?.querySelector("th")?.textContent || "";
  if (!dialog.open) dialog.showModal();
  show(dialog, asked, label);
}

/** @param {any} dialog @param {any} asked @param {string} label */
async function show(dialog, asked, label) {
  const { path, result, verb } = asked, value = pick(result, path), body = h("div", {}, h("p", { class: "muted" }, "looking up …"));
  fill(dialog, h("div", { class: "row" }, h("h2", { id: "origin-name", tabindex: -1, autofocus: true }, label || path), h("button", { class: "close", onclick: () => dialog.close() }, "Close")),
    h("p", { class: "value" }, shown(value, unitOf(path.replace(/^points\.\d+\./, ""))), typeof value === "number" ? h("span", { class: "muted exact" }, ` = ${value}`) : null), band(result, path), body);
  dialog.querySelector("h2").focus();
  const point = path.match(/^(points\.\d+|knee|best_goodput)\./), load = verb === "serve_curve" && point ? pick(result, point[1])?.load : undefined;
  const found = await call("/api/explain", { text: asked.text, file: asked.file, verb, path, options: verb === "serve_curve" ? { axis: result.axis, load: load ?? result.points[0]?.load } : undefined });
  if (!dialog.open || !body.isConnected) return;
  if (!found.ok) { fill(body, found.problems.map((p) => h("div", { class: "problem", role: "alert" }, p.message))); return; }
  const one = verb === "reason" ? path.match(/^(candidates\.\d+|front\.\d+|best)\./) : load !== undefined ? point : null, whole = one ? { ...result, ...pick(result, one[1]), ...(verb === "reason" ? {} : { capacity: result.capacity }) } : result;
  fill(body, found.origin.words ? h("p", {}, found.origin.words) : h("p", {}, "This figure comes out of the simulation of all events; no chain of factors gives it alone. It rests on the scenario and what was assumed."),
    inputs(found.origin.inputs, whole, asked, one ? one[1] : ""), parts(found, whole), assumed(result.assumed || found.chain?.assumed), h("p", { class: "muted" }, found.chain ? "windtunnel explain FILE --json has the same figures." : null));
  tell(`Where ${label || path} comes from`);
}

/** Confidence and interval of a figure. @param {any} result @param {string} path */
function band(result, path) {
  const head = path.split(".")[0], at = path.match(/^(candidates\.\d+|front\.\d+|best)\.(accuracy|cost_usd|energy_j|latency_s\.(p50|p99))$/), grade = result.grades?.[path] || result.grades?.[head] || (at?.[2] === "accuracy" ? pick(result, `${at[1]}.accuracy_grade`) : null);
  const one = at ? pick(result, at[2] === "accuracy" ? `${at[1]}.accuracy_interval` : `${at[1]}.intervals.${at[3] ? `latency_${at[3]}_s` : at[2]}`) : pick(result, `intervals.${path.replace(/\.mean$/, "")}`) || ({ step_time_s: result.interval, "days.mean": result.interval, peak_memory_reserved_bytes: result.memory?.reserved_interval, peak_memory_allocated_bytes: result.memory?.allocated_interval }[path]) || null;
  const unit = unitOf(path);
  return [grade ? h("p", {}, "Confidence: ", h("strong", {}, grade), ".") : null,
    one && typeof one.low === "number" ? h("p", {}, `${digits(100 * (one.level || 0.8), 2)} % interval: ${shown(one.low, unit)} – ${shown(one.high, unit)}.`, one.basis ? h("span", { class: "muted" }, ` ${one.basis}.`) : null) : null];
}

/** Figures that one is computed from; each opens in turn. @param {string[]} names @param {any} result @param {any} asked @param {string} point */
function inputs(names, result, asked, point) {
  const rows = names.flatMap((name) => { const value = pick(result, name); return value && typeof value === "object" && !Array.isArray(value) ? Object.keys(value).map((k) => `${name}.${k}`) : [name]; }).filter((n) => pick(result, n) !== undefined && pick(result, n) !== null);
  if (!rows.length) return null;
  const open = (name) => asked.result && show(document.getElementById("origin"), { ...asked, path: point && pick(asked.result, `${point}.${name}`) !== undefined ? `${point}.${name}` : name }, name.replaceAll("_", " "));
  return h("section", {}, h("h3", {}, "Computed from"), h("ul", { class: "inputs" }, rows.map((name) => h("li", {}, h("button", { class: "link", onclick: () => open(name) }, name), " ", h("span", { "data-path": name, "data-value": JSON.stringify(pick(result, name)) }, shown(pick(result, name), unitOf(name)))))));
}

/** What of the chain stands behind the figure. @param {any} found @param {any} result */
function parts(found, result) {
  const { part, group } = found.origin, chain = found.chain, classes = chain?.chain?.classes || [];
  const sheet = (...names) => found.sheet.filter((s) => names.includes(s.name)).map((s) => factor(null, s, "", ""));
  if (part === "class") { const i = classes.findIndex((c) => c.class === group); return i < 0 ? null : timeClass(chain, i, true); }
  if (part === "step") return classes.length ? h("section", {}, h("h3", {}, "Data sheet × coefficients, class by class"), classes.map((_, i) => timeClass(chain, i, i === 0))) : null;
  if (part === "memory") return h("section", {}, h("h3", {}, `Tensors alive at the peak of stage ${result.memory?.stage}`), h("dl", { class: "factors" }, Object.entries(result.memory?.at_peak || {}).map(([k, v]) => [h("dt", {}, h("span", { "data-path": `memory.at_peak.${k}`, "data-value": JSON.stringify(v) }, bytes(v))), h("dd", {}, k)]), sheet("device memory")));
  if (part === "prompts" || part === "decode") return (chain?.iterations || []).map((one, i) => iteration(chain, i, one.kind.startsWith(part === "decode" ? "decode" : "iteration"), found.sheet));
  if (part === "capacity") return h("section", {}, h("h3", {}, "Room for the cache"), h("ul", {}, (result.capacity?.basis || chain?.capacity?.basis || []).map((w) => h("li", {}, w))), h("dl", { class: "factors" }, sheet("device memory")));
  if (part === "price") return h("section", {}, h("h3", {}, "Data sheet"), h("dl", { class: "factors" }, sheet("price an hour")));
  if (part === "run") return h("section", {}, h("h3", {}, "Mean seconds of each class"), h("dl", { class: "factors" }, Object.entries(result.seconds || {}).filter(([, s]) => s > 0).map(([k, s]) => [h("dt", {}, h("span", { "data-path": `seconds.${k}`, "data-value": JSON.stringify(s) }, seconds(s))), h("dd", {}, k.replaceAll("_", " "))])),
    h("p", { class: "muted" }, `Failure profile: ${result.failure_profile}.`), h("details", {}, h("summary", {}, `The step of ${seconds(chain?.step_time_s)}`), classes.map((_, i) => timeClass(chain, i, false))));
  return null;
}

/** One class of a step's time. @param {any} root @param {number} i @param {boolean} opened */
function timeClass(root, i, opened) {
  const c = root.chain.classes[i], path = `chain.classes.${i}`, f = (name, words) => figure(root, `${path}.${name}`, words);
  return h("details", { open: opened }, h("summary", {}, h("strong", {}, c.class), " ", f("exposed_s", seconds), ", ", f("share", (x) => `${digits(100 * x, 3)} %`), " of the step"),
    c.terms.length ? c.terms.map((t, j) => term(root, t, `${path}.terms.${j}`)) : h("p", { class: "muted" }, "What is left of the step beside the terms: no launch has this time of its own."));
}

/** Sheet × coefficients × rest = rate, and work over it. @param {any} root @param {any} t @param {string} path */
function term(root, t, path) {
  const f = (name, words) => figure(root, `${path}.${name}`, words), perS = (x) => rate(x, `${t.unit}/s`);
  return h("div", { class: "term" }, h("h3", {}, t.term, h("span", { class: "muted" }, ` · ${t.grade}`)), h("dl", { class: "factors" },
    t.data_sheet ? factor(f("data_sheet.value", (x) => rate(x, t.data_sheet.unit)), t.data_sheet, "", t.data_sheet.grade) : null,
    t.coefficients.map((c, k) => factor(f(`coefficients.${k}.value`, (x) => `${c.name.endsWith("_s") ? seconds(x) : digits(x)}${c.relative_error ? ` ± ${digits(100 * c.relative_error, 2)} %` : ""}`), c, t.data_sheet || k ? "× " : "", c.grade)),
    Math.abs(t.rest.value - 1) > 1e-9 ? [h("dt", {}, "× ", f("rest.value", (x) => digits(x))), h("dd", {}, t.rest.name || "rest")] : null,
    [h("dt", {}, "= ", f("achieved_rate", perS)), h("dd", {}, "achieved; ", f("work", (x) => rate(x, t.unit)), " in ", f("count", (x) => digits(x, 7)), " launches keep the device busy for ", f("busy_s", seconds), "; ", f("exposed_s", seconds), " of the step are theirs")]),
  t.note ? h("p", { class: "muted" }, t.note) : null);
}

/** One factor with its source. @param {any} value @param {any} of @param {string} sign @param {string} grade */
function factor(value, of, sign, grade) {
  return [h("dt", {}, sign, value || (of.unit === "B" ? bytes(of.value) : rate(of.value, of.unit))), h("dd", {}, h("strong", {}, of.name), h("span", { class: "muted" }, ` ${[grade, of.source, of.prior !== null && of.prior !== undefined ? `before the fit ${digits(of.prior)}` : ""].filter(Boolean).join(" · ")}`))];
}

/** One kind of iteration of a server. @param {any} root @param {number} i @param {boolean} opened @param {any[]} sheet */
function iteration(root, i, opened) {
  const one = root.iterations[i], path = `iterations.${i}`, f = (name, words) => figure(root, `${path}.${name}`, words);
  return h("details", { open: opened }, h("summary", {}, h("strong", {}, one.kind), " ", f("seconds", seconds), " at the mean batch"),
    h("h3", {}, "Classes of time"), h("dl", { class: "factors" }, one.classes.map((c, j) => [h("dt", {}, f(`classes.${j}.seconds`, seconds)), h("dd", {}, c.class, h("span", { class: "muted" }, ` ${digits(100 * c.share, 3)} %${c.inputs.length ? ` · ${c.inputs.join(", ")}` : ""}`))])),
    h("h3", {}, "Data sheet and coefficients"), h("p", { class: "muted" }, "An exponent of −0.6: 1 % more of it makes the iteration 0.6 % shorter."),
    h("dl", { class: "factors" }, one.inputs.map((x, j) => [h("dt", {}, f(`inputs.${j}.value`, (v) => `${x.unit === "s" ? seconds(v) : rate(v, x.unit)}${x.relative_error ? ` ± ${digits(100 * x.relative_error, 2)} %` : ""}`)),
      h("dd", {}, h("strong", {}, x.name), " exponent ", f(`inputs.${j}.exponent`, (v) => `${v < 0 ? "−" : "+"}${digits(Math.abs(v), 3)}`), h("span", { class: "muted" }, ` ${x.grade} · ${x.source}${x.prior ? ` · before the fit ${digits(x.prior)}` : ""}`))])));
}

/** @param {any[]|undefined} list */
function assumed(list) {
  return list?.length ? h("details", {}, h("summary", {}, `${list.length} settings were assumed`), h("ul", {}, list.map((a) => h("li", {}, h("strong", {}, a.field), ` ${a.value} `, h("span", { class: "muted" }, a.why))))) : null;
}
