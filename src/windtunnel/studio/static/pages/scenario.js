// What will it do? The text and a form of it on one side, the figures on the other, as one types.
import { h, fill, tell } from "../dom.js";
import { call, TAB } from "../api.js";
import { state, take, edited, undone, undoable, kinds, START } from "../state.js";
import { FIGURES, at as pick, shown, seconds, digits } from "../format.js";
import { bars, gauge } from "../charts.js";
import { setField } from "../yaml.js";
import { packed, MOST_LINK } from "../share.js";
import { from } from "../origin.js";
import { problemLines } from "../problems.js";

export const title = "Scenario";
const WAIT_MS = 120, FIELD_WAIT_MS = 350, MOST_COLUMNS = 6;
/** Verb → [label, field, list of suggestions]. @type {Record<string, string[][]>} */
const FORM = { train: [["model", "model", "models"], ["device", "cluster.device", "devices"], ["nodes", "cluster.nodes"], ["sequence length, tokens", "training.seq_len"], ["global batch, sequences", "training.global_batch"],
  ["tensor parallel · tp", "plan.tp"], ["pipeline stages · pp", "plan.pp"], ["context parallel · cp", "plan.cp"], ["expert parallel · ep", "plan.ep"], ["micro-batch · mbs", "plan.mbs"], ["sharding · zero", "plan.zero", "zero"], ["recomputation", "plan.recompute", "recompute"]],
serve: [["model", "model", "models"], ["device", "cluster.device", "devices"], ["nodes", "cluster.nodes"], ["engine", "serving.engine", "engines"], ["tensor parallel · tp", "plan.tp"], ["requests a second", "serving.traffic.rate_per_s"], ["requests in flight", "serving.traffic.concurrency"]],
run: [["tokens to train", "run.tokens"], ["failures of", "run.failures"], ["spare nodes", "run.recovery.spares"], ["nodes", "cluster.nodes"], ["save every", "run.checkpoint.interval"]],
cluster: [["policy", "jobs.policy"], ["placement", "jobs.placement"], ["device", "cluster.device", "devices"], ["nodes", "cluster.nodes"]], learn: [["task", "learning.task"], ["workers", "learning.workers"], ["steps", "learning.steps"], ["seeds", "learning.seeds"]],
reason: [["model", "model", "models"], ["device", "cluster.device", "devices"], ["nodes", "cluster.nodes"], ["problems", "programs.problems"], ["problems at once", "programs.concurrency"], ["right at one attempt", "population.pass_1"]] };
/** Fields that are shown only where the scenario states them: they exclude others. */
const STATED = new Set(["programs.concurrency", "population.pass_1", "serving.traffic.rate_per_s", "serving.traffic.concurrency", "run.checkpoint.interval"]);
/** Verb → pages that go on from here. @type {Record<string, [string, string][]>} */
const NEXT = { train: [["timeline", "Timeline of the step"], ["memory", "Memory over the step"], ["search", "Find the best plan"], ["advice", "Which technique would help?"], ["export", "Launch files"]], serve: [["serving", "Latencies against load"], ["search", "Find the best deployment"], ["advice", "Which technique would help?"], ["export", "Launch files"]],
  run: [["run", "Days, failures and lost time"], ["report", "Report"]], learn: [["learning", "Loss against hours, bytes and joules"]], cluster: [["report", "Jobs, queues and nodes"]], reason: [["reason", "Accuracy against dollars and seconds"]] };
const SUGGESTED = { zero: ["0", "1", "2", "3"], recompute: ["none", "selective", "full"], engines: ["vllm", "sglang", "trtllm"] };
const full = (p) => (p.recompute?.policy === "full" ? null : "full"), times = (n) => (_, nodes) => n * nodes;
/** What often makes a step fit: words → fields and their values, from the step's plan and nodes; null where it is so already. @type {[string, [string, (plan: any, nodes: number) => any][]][]} */
const FITTING = [["recompute everything", [["plan.recompute", full]]], ["recompute attention", [["plan.recompute", (p) => (p.recompute?.policy === "none" ? "selective" : null)]]], ["shard weights, gradients and optimizer (zero 3)", [["plan.zero", (p) => (p.zero < 3 ? 3 : null)]]], ["shard the optimizer (zero 1)", [["plan.zero", (p) => (p.zero < 1 ? 1 : null)]]],
  ["micro-batches of one", [["plan.mbs", (p) => (p.mbs > 1 ? 1 : null)]]], ["twice the tensor parallelism", [["plan.tp", (p) => 2 * p.tp]]], ["twice the stages", [["plan.pp", (p) => 2 * p.pp]]], ...[2, 4, 8].map((n) => [`${n} times the nodes`, [["cluster.nodes", times(n)]]]), ...[2, 4, 8].map((n) => [`recompute everything on ${n} times the nodes`, [["plan.recompute", full], ["cluster.nodes", times(n)]]])];

/** @param {any} page @param {URLSearchParams} words */
export async function show(page, words) {
  let watching = null, timer = 0, typing = null, asking = Promise.resolve(), gone = false, last = 0, shownTurn = 0, formed = "", unfolded = false;
  const file = words.get("f");
  if (file && (file !== state.file || state.text === state.disk)) await load(file);
  if (!state.text) state.text = START;
  const area = h("textarea", { spellcheck: "false", "aria-label": "Scenario as YAML", wrap: "off", value: state.text });
  const gutter = h("div", { class: "gutter", "aria-hidden": "true" }), form = h("div", { class: "form" }), head = h("h1", {});
  const verbs = h("select", { "aria-label": "What to predict", onchange: () => { state.verb = verbs.value; ask(); } });
  const body = h("div", {}), side = h("div", { class: "side" }, h("p", { class: "pending", role: "status" }, "predicting your edit; these are the figures before it"), body), said = h("div", { class: "at-lines" }), saved = h("span", { class: "muted" }), save = h("button", { onclick: write, disabled: !state.file, title: state.file ? "Save the file (Ctrl S)" : "This scenario is no file of the folder: download it" }, "Save");
  const undo = h("button", { onclick: () => step(false), title: "Ctrl Z" }, "Undo"), redo = h("button", { onclick: () => step(true), title: "Ctrl Shift Z" }, "Redo");
  area.addEventListener("input", () => { edited(area.value, "text"); lines([]); later(); });
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
  area.addEventListener("keydown", (e) => { if ((e.ctrlKey || e.metaKey) && e.key === "s") { e.preventDefault(); write(); } });
  const keys = async (e) => {
    const key = e.key.toLowerCase();
    if (!(e.ctrlKey || e.metaKey) || e.altKey || (key !== "z" && key !== "y")) return;
    e.preventDefault(); flush(); step(key === "y" || e.shiftKey);
  };

  fill(page, head,
    h("div", { class: "row" }, h("label", {}, "predict ", verbs), undo, redo, save, h("button", { onclick: download }, "Download"), h("button", { onclick: share }, "Copy link"), h("button", { onclick: column }, "Add to Compare"), h("button", { onclick: pin }, "Pin as baseline"), saved),
    h("div", { class: "two" }, h("div", { onkeydown: keys }, form, h("div", { class: "editor" }, gutter, area), said), side));
  lines([]); draw(); watch(); ask();
  return () => { flush(); gone = true; clearTimeout(timer); watching?.close(); };

  async function load(id) {
    const found = await call(`/api/file/${id}`);
    if (found.ok) take(found.text, { file: id, path: found.path, changed: found.changed, disk: found.text });
  }
  async function reload() { await load(state.file); area.value = state.text; saved.textContent = "loaded from disk"; lines([]); ask(); }
  function watch() {
    if (!state.file) return;
    watching = new EventSource(`/api/watch/${state.file}?tab=${TAB}`);
    watching.onmessage = async (e) => {
      if (JSON.parse(e.data).changed === state.changed) return;
      if (area.value === state.disk) await reload();
      else fill(saved, "the file has changed on disk, and so has this text: ", h("button", { onclick: reload }, "load the file"));
    };
  }
  /** What a field of the form holds and has not been written yet, into the text. */
  function flush() { if (typing) { const now = typing; typing = null; clearTimeout(now.timer); now.write(); } }
  /** Until the figures are those of the text: every action on them waits for it. */
  async function settled() {
    flush();
    if (timer) ask();
    for (let seen; seen !== asking;) { seen = asking; await seen; }
    return !gone && state.answer?.ok && !state.problems?.length && state.answered === area.value;
  }
  /** Undo or redo an edit of the form or of the text; the cursor goes to where they differ. @param {boolean} forward */
  function step(forward) {
    const text = undone(forward), old = area.value;
    if (text === null) return;
    for (const input of form.querySelectorAll("input")) input.dataset.sent = input.value;
    put(text); ask();
    let end = 0;
    while (end < text.length && text[text.length - 1 - end] === old[old.length - 1 - end]) end++;
    area.setSelectionRange(text.length - end, text.length - end);
  }
  /** @param {string} text */
  function put(text) { area.value = text; lines([]); }
  async function write() {
    flush();
    if (!state.file) return;
    const done = await call(`/api/file/${state.file}`, { text: area.value, changed: state.changed }, "PUT");
    if (done.ok) { state.changed = done.changed; state.disk = area.value; saved.textContent = "saved"; } else saved.textContent = done.problems[0]?.message || "not saved";
    tell(saved.textContent);
  }
  function download() {
    flush();
    const at = URL.createObjectURL(new Blob([area.value], { type: "application/yaml" }));
    h("a", { href: at, download: (state.path.split("/").pop() || "scenario.yaml").replace(/\s+/g, "-").replace(/(\.ya?ml)?$/, ".yaml") }).click();
    setTimeout(() => URL.revokeObjectURL(at), 1000);
  }
  async function share() {
    flush();
    const code = await packed(area.value), link = `${location.origin}/#/scenario?s=${code}`;
    if (code.length > MOST_LINK) saved.textContent = `the scenario is too long for a link (${code.length} of ${MOST_LINK} characters): download it and send the file`;
    else try { await navigator.clipboard.writeText(link); saved.textContent = "link copied: it holds the scenario; others paste it on Home of their studio, or open it with windtunnel studio 'LINK'"; } catch { saved.textContent = link; }
    tell(saved.textContent);
  }
  async function column() {
    const sure = await settled();
    if (gone) return;
    if (!sure) { saved.textContent = "there is no answer to add"; return; }
    if (state.columns.length >= MOST_COLUMNS) { saved.textContent = `${MOST_COLUMNS} columns are the most: remove one on Compare`; return; }
    state.columns.push({ name: state.path || state.fields?.name || "", text: area.value, file: state.file, verb: state.answer.verb, result: state.answer.result, fields: state.fields });
    fill(saved, `${state.columns.length} ${state.columns.length === 1 ? "column; edit, and add another" : "columns"}: `, h("a", { href: "#/compare" }, "side by side"));
  }
  async function pin() { if (await settled()) { state.pinned = state.answer; saved.textContent = "changes are told against these figures"; draw(); } }
  /** The figures are those of the text before this edit. */
  function stale() { side.classList.toggle("stale", Boolean(state.answer)); side.setAttribute("aria-busy", "true"); [undo.disabled, redo.disabled] = undoable().map((any) => !any); }
  /** Nothing is on its way any more. */
  function calm() { if (!typing && !timer && shownTurn === last) { side.classList.remove("stale"); side.setAttribute("aria-busy", "false"); } }
  function later() { stale(); clearTimeout(timer); timer = setTimeout(ask, WAIT_MS); }
  function ask() { clearTimeout(timer); timer = 0; stale(); asking = predict(area.value); return asking; }
  /** @param {string} text */
  async function predict(text) {
    performance.mark("asked");
    const turn = ++last, found = await call("/api/predict", { text, verb: state.verb || undefined, file: state.file });
    if (gone || turn !== last || found.replaced) return;
    shownTurn = turn; calm();
    if (found.ok) { state.answer = found; state.answered = text; state.problems = []; from(side, { text, file: state.file, verb: found.verb, result: found.result }); } else state.problems = found.problems;
    if (found.fields) state.fields = found.fields;
    state.slow = found.slow;
    draw();
    performance.mark("shown"); performance.measure("edit to number", "asked", "shown");
  }
  function lines(marked) {
    const count = area.value.split("\n").length;
    fill(gutter, Array.from({ length: count }, (_, i) => [marked.includes(i + 1) ? h("span", { class: "mark" }, `${i + 1}\n`) : `${i + 1}\n`]));
  }
  /** What is wrong, beside the text: each leads to its line. @param {any[]} problems */
  function told(problems) {
    fill(said, problems.slice(0, 4).map((p) => {
      const line = p.line || lineOf(area.value, p.field), short = [p.field, p.message].filter(Boolean).join(": ");
      return line ? h("button", { class: "at-line", onclick: () => toLine(line) }, h("strong", {}, `line ${line} `), short) : null;
    }));
  }
  /** @param {number} line */
  function toLine(line) {
    const before = area.value.split("\n").slice(0, line - 1).reduce((n, l) => n + l.length + 1, 0), end = area.value.indexOf("\n", before);
    area.focus(); area.setSelectionRange(before, end < 0 ? area.value.length : end);
    area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
  }
  function draw() {
    const problems = state.problems || [], answer = state.answer;
    lines(problems.map((p) => p.line || lineOf(area.value, p.field))); told(problems);
    [undo.disabled, redo.disabled] = undoable().map((any) => !any);
    const known = kinds(area.value), meant = known.find((v) => v === state.verb) || known[0] || "train", verb = problems.length ? meant : answer?.verb || meant;
    head.textContent = state.path || state.fields?.name || "New scenario";
    fill(verbs, (known.length ? known : [verb]).map((v) => h("option", { value: v, selected: v === verb }, v)));
    if (state.fields || answer) fields(verb, problems);
    const own = answer && answer.verb === verb ? answer : null;
    window.dispatchEvent(new Event("windtunnel-kind"));
    fill(body, problemLines(problems, state, ask),
      state.slow ? h("div", { class: "card" }, "Longer work has pages of its own, where it can be watched and stopped: ", NEXT[verb].filter(([name]) => name !== "export").map(([name, said], i) => [i ? ", " : "", h("a", { href: `#/${name}` }, said)])) : null,
      own ? figures(own, problems.length > 0) : h("p", { class: "muted" }, problems.length ? "" : "predicting …"));
  }
  /** The form: made anew where other fields are asked for, else filled where one does not type. @param {string} verb @param {any[]} problems */
  function fields(verb, problems) {
    const own = state.fields || {}, resolved = state.answer?.result || {}, pools = Boolean(own.serving?.pools?.length);  // pools have plans of their own
    const rows = (FORM[verb] || []).filter(([, path]) => !(pools && path.startsWith("plan.")) && !(STATED.has(path) && pick(own, path) === undefined));
    const made = rows.map(([, path]) => path).join();
    if (made !== formed) {
      formed = made;
      fill(form, rows.map(([label, path, list]) => h("label", { class: path === "model" ? "wide" : "" }, label, h("input", { "data-field": path, autocomplete: "off", list: list ? `list-${list}` : null, onfocus: () => suggest(list), oninput: (e) => typedIn(path, e.target), onchange: (e) => { drop(path); edit(path, typed(e.target.value)); } }))), [...new Set(rows.map((r) => r[2]).filter(Boolean))].map((list) => h("datalist", { id: `list-${list}` })));
    }
    for (const input of form.querySelectorAll("input")) {
      const path = input.dataset.field, value = pick(own, path) ?? (own.training || own.serving || own.plan ? pick(resolved.scenario, path) ?? pick(resolved, path) : undefined);
      const text = typeof value === "object" && value !== null ? value.policy || JSON.stringify(value) : value ?? "", wrong = problems.some((p) => p.field === path);
      if (document.activeElement !== input || input.dataset.sent === input.value) input.value = text;
      if (wrong) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
    }
  }
  /** Names that a field takes, asked for once. @param {string|undefined} list */
  async function suggest(list) {
    const at = list && form.querySelector(`#list-${list}`);
    if (!at || at.children.length) return;
    const names = SUGGESTED[list] || ((await call(`/api/catalogue/${list}`)).entries || []).map((e) => e.id);
    fill(at, names.map((n) => h("option", { value: n })));
  }
  function edit(path, value) {
    const input = form.querySelector(`[data-field="${path}"]`);
    if (input) input.dataset.sent = input.value;
    const text = setField(area.value, path, value);
    if (text === area.value) { calm(); return; }
    edited(text, path); put(text); ask();
  }
  /** Typing is enough: what a field holds is written once it rests. @param {string} path @param {any} input */
  function typedIn(path, input) {
    if (typing && typing.path !== path) flush();
    drop(path); stale();
    if (!input.value.trim()) return;
    const write = () => { const text = setField(area.value, path, typed(input.value.trim())); if (text !== area.value) { edited(text, path); put(text); ask(); } else calm(); };
    typing = { path, write, timer: setTimeout(flush, FIELD_WAIT_MS) };
  }
  /** @param {string} path */
  function drop(path) { if (typing?.path === path) { clearTimeout(typing.timer); typing = null; }
  }
  function figures(answer, stale) {
    const r = answer.result, base = state.pinned && state.pinned.verb === answer.verb ? state.pinned.result : null;
    const capacity = r.memory?.capacity_bytes, [verdict, tone] = answer.fit || [];
    const list = (FIGURES[answer.verb] || []).filter(([, path]) => pick(r, path) !== undefined && pick(r, path) !== null && !(verdict && path === "memory_fits")).map(([label, path, unit, band, better]) => {
      const value = pick(r, path), range = band ? pick(r, band) : null, old = base ? pick(base, path) : null, bad = (path === "memory_fits" && value === false) || (path === "saturated" && value === true);
      const change = typeof old === "number" && old ? value / old - 1 : null;
      const gauged = verdict && capacity && path === "peak_memory_reserved_bytes";
      return h("div", { class: gauged ? "figure gauged" : typeof value === "string" && value.length > 40 ? "figure long" : "figure" }, h("div", { class: "name" }, label), h("div", { class: `${typeof value === "string" && value.length > 14 ? "value words" : "value"}${bad ? " bad" : ""}`, "data-path": path, "data-value": JSON.stringify(value) }, shown(value, unit)), gauged ? [h("span", { class: "whole" }, `of ${shown(capacity, "bytes")}`), gauge(value, capacity, tone), h("div", { class: `verdict ${tone}` }, h("span", { "data-path": "memory_fits", "data-value": JSON.stringify(r.memory_fits) }, verdict))] : null,
        range && typeof range.low === "number" ? h("div", { class: "band", title: range.basis || "" }, `${shown(range.low, unit)} – ${shown(range.high, unit)} (${digits(100 * (range.level ?? 0.8), 2)} %)`) : null,
        change !== null && Math.abs(change) > 1e-4 ? h("div", { class: `delta ${better ? (change * better < 0 ? "good" : "bad") : ""}` }, `${change > 0 ? "+" : "−"}${digits(Math.abs(100 * change), 3)} % against the baseline`) : null);
    }).sort((a, b) => Number(a.classList.contains("gauged")) - Number(b.classList.contains("gauged")));
    const parts = r.breakdown && typeof r.breakdown === "object" ? h("section", { class: "card" }, h("h2", {}, "Where the time goes"), bars(Object.entries(r.breakdown), seconds, "Where the time goes", "breakdown")) : null;
    const memory = r.memory?.at_peak || r.memory?.kinds, kinds = memory && typeof memory === "object" ? h("section", { class: "card" }, h("h2", {}, "Memory at its peak"), bars(Object.entries(memory).filter(([, x]) => typeof x === "number"), (x) => shown(x, "bytes"), "Memory at its peak", r.memory.at_peak ? "memory.at_peak" : "memory.kinds")) : null;
    const assumed = r.assumed || [], next = NEXT[answer.verb] || [];
    return h("div", { class: stale ? "stale" : "" }, stale ? h("p", { class: "muted" }, "Below: the last answer, from before this.") : null, answer.note ? h("p", { class: "muted" }, answer.note) : null, (r.warnings || []).map((w) => h("div", { class: "warning" }, w)), r.memory_fits === false ? fitting(r) : null,
      h("section", { class: "card" }, h("div", { class: "figures" }, list), h("p", { class: "muted hint" }, "A figure opens to what it is made of: click it, or press Enter on it.")),
      next.length ? h("p", { class: "next" }, "Go on: ", next.map(([name, said]) => h("a", { href: `#/${name}` }, said))) : null, parts, kinds,
      assumed.length ? h("details", { class: "card assumed", open: unfolded, ontoggle: (e) => { unfolded = e.target.open; } }, h("summary", {}, `${assumed.length} ${assumed.length === 1 ? "setting was" : "settings were"} assumed`), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Assumed settings" }, h("table", {}, h("thead", {}, h("tr", {}, ["field", "value", "why", ""].map((n) => h("th", { scope: "col" }, n)))), h("tbody", {}, assumed.map((a) => h("tr", {},
        h("td", { class: "field" }, a.field), h("td", {}, String(a.value)), h("td", { class: "muted" }, a.why), h("td", {}, answer.explicit?.[a.field] !== undefined ? h("button", { "aria-label": `Make ${a.field} explicit`, onclick: () => edit(a.field, answer.explicit[a.field]) }, "make explicit") : null))))))) : null,
      h("p", { class: "muted" }, `predicted in ${digits(1000 * answer.wall_s, 3)} ms; windtunnel ${answer.verb} FILE --json prints the same figures`));
  }
  /** Changes of one field that often make a step fit, tried at a click. @param {any} r */
  function fitting(r) {
    const out = h("div", {}), tried = h("button", { onclick: go }, "Try what would make it fit");
    return h("div", { class: "row fitting" }, tried, h("a", { href: "#/search" }, "or find the best plan that fits"), out);
    async function go() {
      const turn = last, rows = [], plan = r.plan || {};
      tried.disabled = true;
      for (const [said, fields] of FITTING) {
        const set = fields.map(([path, value]) => [path, value(plan, state.fields?.cluster?.nodes || 1)]);
        if (set.some(([, v]) => v === null) || gone || turn !== last) continue;
        const text = set.reduce((t, [path, v]) => setField(t, path, v), area.value), found = await call("/api/predict", { text, verb: answerVerb(), file: state.file });
        if (found.replaced) break;
        rows.push([said, text, found]);
        fill(out, h("table", {}, h("thead", {}, h("tr", {}, ["change", "fits", "peak memory", "step", ""].map((n) => h("th", { scope: "col" }, n)))), h("tbody", {}, rows.map(([name, changed, { ok, result: one, problems }]) => h("tr", {}, h("td", {}, name), ok ? [h("td", { class: one.memory_fits ? "good" : "bad" }, one.memory_fits ? "yes" : "no"), h("td", {}, shown(one.peak_memory_reserved_bytes, "bytes")), h("td", {}, seconds(one.step_time_s))] : h("td", { class: "muted", colspan: 3 }, `refused: ${problems?.[0]?.field || ""} ${problems?.[0]?.message || ""}`), h("td", {}, h("button", { "aria-label": `Apply: ${name}`, onclick: () => { edited(changed, "change"); put(changed); ask(); } }, "apply")))))));
      }
      tried.disabled = false; tell(`${rows.filter((x) => x[2].result?.memory_fits).length} of ${rows.length} changes make it fit`);
    }
  }
  function answerVerb() { return state.verb || undefined; }
}

/** What was typed, as a value. @param {string} text */
function typed(text) { try { return JSON.parse(text); } catch { return text; } }

/** @param {string} text @param {string|null} field */
function lineOf(text, field) {
  if (!field) return 0;
  const name = field.split(".").pop(), lines = text.split("\n");
  return lines.findIndex((l) => new RegExp(`(^|[\\s{,])${name.replace(/[^\w]/g, ".")}\\s*:`).test(l)) + 1;
}
