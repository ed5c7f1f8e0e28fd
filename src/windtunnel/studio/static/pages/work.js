// Long work on the scenario of the editor: started, watched, stopped, shown with its report.
import { h, fill, tell } from "../dom.js";
import { job } from "../api.js";
import { state, take, START, STARTS } from "../state.js";
import { from } from "../origin.js";
import { seconds } from "../format.js";
import { drawView } from "../view.js";
import { problemLines } from "../problems.js";
import { sketch } from "../sketch.js";

/** Page → its last answer, which it shows again while the question is the same. @type {Map<string, any>} */
const ANSWERS = new Map(), /** page → seconds of its last answer @type {Map<string, number>} */ TOOK = new Map();
const theme = () => document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

/** @param {any} page @param {{title: string, verb: string, question: string, start: string, comes?: [string[], string[], string], extra?: any[], options?: () => any, part?: string, now?: boolean, native?: boolean, origin?: (result: any, asked: any) => any, draw: (answer: any, at: any, again: () => void) => void}} what */
export function workPage(page, what) {
  let running = null;
  const out = h("div", {}), stop = h("button", { onclick: async () => { await running?.stop(); }, disabled: true }, "Stop"), words = h("span", { class: "muted", role: "status" });
  const start = h("button", { class: "main", onclick: go }, what.start), name = state.path || state.fields?.name || (state.text || START).match(/^name\s*:\s*(.+)/m)?.[1] || "new scenario";
  fill(page, h("h1", {}, what.title), h("p", { class: "muted" }, what.question), h("p", { class: "of" }, "Scenario: ", h("a", { href: "#/scenario" }, name)), h("div", { class: "row" }, what.extra || null, start, stop, words), out);
  const question = () => ({ text: state.text || START, file: state.file, verb: what.verb || state.answer?.verb || undefined, options: what.options?.() });
  async function go() {
    start.disabled = true; stop.disabled = false; fill(out); words.textContent = "asking …";
    const asked = question();
    const begun = performance.now();
    coming();
    running = job(asked, (s) => { words.textContent = `${Math.round(s)} s`; });
    const answer = await running.done;
    start.disabled = false; stop.disabled = true; running = null;
    if (answer.state === "stopped") { words.textContent = "stopped"; coming(); return; }
    const took = (performance.now() - begun) / 1000;
    if (answer.ok) TOOK.set(what.title, took);
    words.textContent = ""; tell(`${what.title}: done`);
    if (answer.ok) ANSWERS.set(what.title, { key: JSON.stringify(asked), answer, asked });
    show(answer, asked);
  }
  /** What the page will hold, until it does. */
  function coming() { if (what.comes) { const [kinds, list, cost] = what.comes, took = TOOK.get(what.title); fill(out, sketch(kinds, list, took ? `${cost} The last took ${seconds(took)} here.` : cost)); } }
  function show(answer, asked) {
    if (!answer.ok) { fill(out, problemLines(answer.problems || [], asked, go), example()); return; }
    from(out, { ...asked, verb: answer.verb, result: answer.result, ...what.origin?.(answer.result, asked) });
    what.draw(answer, out, go);
    if (answer.report && !what.native) report(answer.report, answer.view);
  }
  /** What the terminal prints: in its room, else below what the page draws, closed. @param {string} address @param {any} [view] */
  function report(address, view) {
    const room = out.querySelector(".frame"), at = `${address}?theme=${theme()}${what.part ? `#${what.part}` : ""}`, frame = () => (view && !room && !what.part ? drawView(view) : h("iframe", { src: at, title: `${what.title}: report`, sandbox: "allow-scripts" }));
    const alone = h("p", {}, h("a", { href: at, target: "_blank", rel: "noopener" }, "Open it in a page of its own"), " or ", h("a", { href: address, download: `${name.split("/").pop().replace(/\.\w+$/, "")}-${what.title.toLowerCase()}.html` }, "save it as one HTML file"), " for readers without a studio.");
    if (room || !out.children.length) {
      const own = frame();
      if (room?.dataset.tall) own.style.height = `min(88vh, ${room.dataset.tall}px)`;
      (room || out).append(alone, own);
      return;
    }
    const below = h("details", { class: "card beside", ontoggle: () => { if (below.open && below.children.length === 1) below.append(alone, frame()); } }, h("summary", {}, "What the terminal prints"));
    out.append(below);
  }
  /** For a scenario without the page's section. */
  function example() {
    const text = STARTS[{ serve_curve: "serving", run: "run", learn: "learning", reason: "reasoning", plan: "training", timeline: "training", memory: "training" }[what.verb]], section = { serve_curve: "serving", learn: "learning", run: "run", reason: "programs" }[what.verb] || "training";
    return text && !new RegExp(`^${section}\\s*:`, "m").test(state.text || START) ? h("button", { onclick: () => { take(text); go(); } }, `Take an example with a section “${section}”`) : null;
  }
  const before = ANSWERS.get(what.title);
  if (before && before.key === JSON.stringify(question())) show(before.answer, before.asked); else if (what.now) go(); else coming();
  return () => { running?.stop(); };
}

/** Open fields as the scenario of the editor. @param {any} fields @param {string} name */
export function open(fields, name) {
  take(`# ${name}\n${Object.entries(fields).map(([k, v]) => `${k}: ${JSON.stringify(v)}`).join("\n")}\n`, { path: name });
  location.hash = "#/scenario";
}
