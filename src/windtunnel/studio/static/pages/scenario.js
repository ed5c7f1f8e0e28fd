// What will it do? The text and a form of it on one side, the figures on the other, as one types.
import { h, fill, tell } from "../dom.js";
import { call } from "../api.js";
import { state, START } from "../state.js";
import { FIGURES, at as pick, shown, seconds, digits } from "../format.js";
import { bars } from "../charts.js";
import { setField } from "../yaml.js";
import { packed } from "../share.js";
import { from } from "../origin.js";

export const title = "Scenario";
const WAIT_MS = 120;
const FORM = { train: [["model", "model"], ["device", "cluster.device"], ["nodes", "cluster.nodes"], ["sequence length", "training.seq_len"], ["global batch", "training.global_batch"],
  ["tp", "plan.tp"], ["pp", "plan.pp"], ["cp", "plan.cp"], ["ep", "plan.ep"], ["mbs", "plan.mbs"], ["zero", "plan.zero"], ["recompute", "plan.recompute"]],
serve: [["model", "model"], ["device", "cluster.device"], ["nodes", "cluster.nodes"], ["engine", "serving.engine"], ["tp", "plan.tp"]],
run: [["tokens", "run.tokens"], ["failures", "run.failures"], ["spares", "run.recovery.spares"], ["nodes", "cluster.nodes"]],
cluster: [["policy", "jobs.policy"], ["placement", "jobs.placement"]], learn: [["task", "learning.task"], ["workers", "learning.workers"], ["steps", "learning.steps"]] };
const SECTIONS = { train: "training", serve: "serving", run: "run", cluster: "jobs", learn: "learning" };

/** @param {any} page @param {URLSearchParams} words */
export async function show(page, words) {
  let watching = null, timer = 0, gone = false, last = 0;
  const file = words.get("f");
  if (file && file !== state.file) await load(file);
  if (!state.text) state.text = START;
  const area = h("textarea", { spellcheck: "false", "aria-label": "Scenario as YAML", wrap: "off", value: state.text });
  const gutter = h("div", { class: "gutter", "aria-hidden": "true" }), form = h("div", { class: "form" });
  const verbs = h("select", { "aria-label": "What to predict", onchange: () => { state.verb = verbs.value; ask(); } });
  const side = h("div", {}), saved = h("span", { class: "muted" }), save = h("button", { onclick: write, disabled: !state.file }, "Save");
  area.addEventListener("input", () => { state.text = area.value; lines([]); later(); });
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  area.addEventListener("keydown", (e) => { if ((e.ctrlKey || e.metaKey) && e.key === "s") { e.preventDefault(); write(); } });
  fill(page, h("h1", {}, state.path || "New scenario"),
    h("div", { class: "row" }, verbs, save, h("button", { onclick: download }, "Download"), h("button", { onclick: share }, "Copy link"), h("button", { onclick: column }, "Add to Compare"), h("button", { onclick: pin }, "Pin as baseline"), saved),
    h("div", { class: "two" }, h("div", {}, form, h("div", { class: "editor" }, gutter, area)), side));
  lines([]); draw(); watch(); ask();
  return () => { gone = true; clearTimeout(timer); watching?.close(); };

  async function load(id) {
    const found = await call(`/api/file/${id}`);
    if (found.ok) Object.assign(state, { text: found.text, file: id, path: found.path, changed: found.changed, answer: null, verb: "", pinned: null });
  }
  function watch() {
    if (!state.file) return;
    watching = new EventSource(`/api/watch/${state.file}`);
    watching.onmessage = async (e) => {
      if (JSON.parse(e.data).changed === state.changed) return;
      await load(state.file); area.value = state.text; saved.textContent = "loaded from disk"; lines([]); ask();
    };
  }
  async function write() {
    if (!state.file) return;
    const done = await call(`/api/file/${state.file}`, { text: area.value, changed: state.changed }, "PUT");
    if (done.ok) { state.changed = done.changed; saved.textContent = "saved"; } else saved.textContent = done.problems[0]?.message || "not saved";
    tell(saved.textContent);
  }
  function download() {
    const at = URL.createObjectURL(new Blob([area.value], { type: "application/yaml" }));
    h("a", { href: at, download: (state.path.split("/").pop() || "scenario.yaml").replace(/\s+/g, "-").replace(/(\.ya?ml)?$/, ".yaml") }).click();
    setTimeout(() => URL.revokeObjectURL(at), 1000);
  }
  async function share() {
    const link = `${location.origin}/#/scenario?s=${await packed(area.value)}`;
    try { await navigator.clipboard.writeText(link); saved.textContent = link.length > 8000 ? "link copied; it is long, some programs cut it" : "link copied; others open it with windtunnel studio LINK, or paste it on Home"; } catch { saved.textContent = link; }
    tell(saved.textContent);
  }
  function column() {
    if (state.answer?.ok) { state.columns.push({ name: state.path || `plan ${state.columns.length + 1}`, text: area.value, file: state.file, verb: state.answer.verb, result: state.answer.result }); state.columns = state.columns.slice(-6); saved.textContent = `${state.columns.length} columns`; }
  }
  function pin() { if (state.answer?.ok) { state.pinned = state.answer; draw(); } }
  function later() { clearTimeout(timer); timer = setTimeout(ask, WAIT_MS); }
  async function ask() {
    performance.mark("asked");
    const turn = ++last;
    side.classList.toggle("stale", Boolean(state.answer));
    const found = await call("/api/predict", { text: area.value, verb: state.verb || undefined, file: state.file });
    if (gone || turn !== last || found.replaced) return;
    side.classList.remove("stale");
    if (found.ok) { state.answer = found; state.problems = []; from(side, { text: area.value, file: state.file, verb: found.verb, result: found.result }); } else state.problems = found.problems;
    state.slow = found.slow;
    draw();
    performance.mark("shown"); performance.measure("edit to number", "asked", "shown");
  }
  function lines(marked) {
    const count = area.value.split("\n").length;
    fill(gutter, Array.from({ length: count }, (_, i) => [marked.includes(i + 1) ? h("span", { class: "mark" }, `${i + 1}\n`) : `${i + 1}\n`]));
  }
  function draw() {
    const problems = state.problems || [], answer = state.answer;
    lines(problems.map((p) => p.line || lineOf(area.value, p.field)));
    const scenario = answer?.result?.scenario || {};
    const known = Object.keys(SECTIONS).filter((v) => new RegExp(`^${SECTIONS[v]}\\s*:`, "m").test(area.value));
    const verb = answer?.verb || known.find((v) => v === state.verb) || ["learn", "cluster", "run", "serve"].find((v) => known.includes(v)) || "train";
    fill(verbs, (known.length ? known : [verb]).map((v) => h("option", { value: v, selected: v === verb }, v)));
    const pools = Boolean(scenario.serving?.pools?.length);  // have plans of their own
    fill(form, (answer ? FORM[verb] || [] : []).filter(([, path]) => !(pools && path.startsWith("plan."))).map(([label, path]) => {
      const value = pick(scenario, path) ?? pick(answer?.result, path);
      return h("label", {}, label, h("input", { value: typeof value === "object" && value !== null ? value.policy || JSON.stringify(value) : value ?? "", "data-field": path, onchange: (e) => edit(path, e.target.value) }));
    }));
    fill(side, problems.map((p) => h("div", { class: "problem", role: "alert" }, p.field ? h("strong", {}, `${p.field}${p.value !== null && p.value !== undefined && typeof p.value !== "object" ? ` = ${p.value}` : ""}: `) : null, p.message, p.hint ? h("span", { class: "muted" }, ` ${p.hint}`) : null)),
      answer ? figures(answer, problems.length > 0) : h("p", { class: "muted" }, problems.length ? "" : "predicting …"));
  }
  function edit(path, typed) {
    let value = typed;
    try { value = JSON.parse(typed); } catch { /* a word */ }
    area.value = state.text = setField(area.value, path, value); lines([]); ask();
  }
  function figures(answer, stale) {
    const r = answer.result, base = state.pinned && state.pinned.verb === answer.verb ? state.pinned.result : null;
    const list = (FIGURES[answer.verb] || []).filter(([, path]) => pick(r, path) !== undefined && pick(r, path) !== null).map(([label, path, unit, band, better]) => {
      const value = pick(r, path), range = band ? pick(r, band) : null, old = base ? pick(base, path) : null;
      const change = typeof old === "number" && old ? value / old - 1 : null;
      return h("div", { class: "figure" }, h("div", { class: "name" }, label), h("div", { class: typeof value === "string" && value.length > 24 ? "value words" : "value", "data-path": path, "data-value": JSON.stringify(value) }, shown(value, unit)),
        range && typeof range.low === "number" ? h("div", { class: "band", title: range.basis || "" }, `${shown(range.low, unit)} – ${shown(range.high, unit)} (${digits(100 * (range.level ?? 0.8), 2)} %)`) : null,
        change !== null && Math.abs(change) > 1e-4 ? h("div", { class: `delta ${better ? (change * better < 0 ? "good" : "bad") : ""}` }, `${change > 0 ? "+" : "−"}${digits(Math.abs(100 * change), 3)} % against the baseline`) : null);
    });
    const parts = r.breakdown && typeof r.breakdown === "object" ? h("section", { class: "card" }, h("h2", {}, "Where the time goes"), bars(Object.entries(r.breakdown), seconds, "Where the time goes", "breakdown"), answer.verb === "train" ? h("p", {}, h("a", { href: "#/timeline" }, "Timeline of the step")) : null) : null;
    const memory = r.memory?.at_peak || r.memory?.kinds, kinds = memory && typeof memory === "object" ? h("section", { class: "card" }, h("h2", {}, "Memory at its peak"), bars(Object.entries(memory).filter(([, x]) => typeof x === "number"), (x) => shown(x, "bytes"), "Memory at its peak", r.memory.at_peak ? "memory.at_peak" : "memory.kinds"), answer.verb === "train" ? h("p", {}, h("a", { href: "#/memory" }, "Memory over the step")) : null) : null;
    const assumed = r.assumed || [];
    return h("div", { class: stale ? "stale" : "" }, answer.note ? h("p", { class: "muted" }, answer.note) : null,
      h("section", { class: "card" }, h("div", { class: "figures" }, list)), parts, kinds,
      (r.warnings || []).map((w) => h("div", { class: "warning" }, w)),
      assumed.length ? h("details", { class: "card" }, h("summary", {}, `${assumed.length} settings were assumed`), h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, assumed.map((a) => h("tr", {},
        h("td", {}, a.field), h("td", {}, String(a.value)), h("td", { class: "muted" }, a.why), h("td", {}, h("button", { onclick: () => edit(a.field, JSON.stringify(a.value)) }, "make explicit")))))))) : null,
      h("p", { class: "muted" }, `predicted in ${digits(1000 * answer.wall_s, 3)} ms; the terminal's --json has the same figures`));
  }
}

/** @param {string} text @param {string|null} field */
function lineOf(text, field) {
  if (!field) return 0;
  const name = field.split(".").pop(), lines = text.split("\n");
  return lines.findIndex((l) => new RegExp(`(^|[\\s{,])${name.replace(/[^\w]/g, ".")}\\s*:`).test(l)) + 1;
}
