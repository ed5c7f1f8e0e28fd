// Long work on the scenario of the editor: started, watched, stopped, shown with its report.
import { h, fill, tell } from "../dom.js";
import { job } from "../api.js";
import { state, START, STARTS } from "../state.js";
import { from } from "../origin.js";

/** @param {any} page @param {{title: string, verb: string, question: string, start: string, extra?: any[], options?: () => any, part?: string, now?: boolean, origin?: (result: any, asked: any) => any, draw: (answer: any, at: any) => void}} what */
export function workPage(page, what) {
  let running = null;
  const out = h("div", {}), stop = h("button", { onclick: async () => { await running?.stop(); }, disabled: true }, "Stop"), words = h("span", { class: "muted" });
  const start = h("button", { class: "main", onclick: go }, what.start);
  fill(page, h("h1", {}, what.title), h("p", { class: "muted" }, what.question), h("div", { class: "row" }, what.extra || null, start, stop, words), out);
  async function go() {
    start.disabled = true; stop.disabled = false; fill(out);
    const asked = { text: state.text || START, file: state.file };
    running = job({ ...asked, verb: what.verb || state.answer?.verb || undefined, options: what.options?.() }, (s) => { words.textContent = `${Math.round(s)} s`; });
    const answer = await running.done;
    start.disabled = false; stop.disabled = true; running = null;
    if (answer.state === "stopped") { words.textContent = "stopped"; return; }
    words.textContent = ""; tell(`${what.title}: done`);
    if (!answer.ok) { fill(out, (answer.problems || []).map((p) => h("div", { class: "problem", role: "alert" }, p.field ? `${p.field}: ` : "", p.message, p.hint ? ` ${p.hint}` : "")), example()); return; }
    from(out, { ...asked, verb: answer.verb, result: answer.result, ...what.origin?.(answer.result, asked) });
    what.draw(answer, out);
    if (answer.report) (out.querySelector(".frame") || out).append(h("p", {}, h("a", { href: answer.report, target: "_blank", rel: "noopener" }, "Open it in a page of its own")), h("iframe", { class: out.children.length && !out.querySelector(".frame") ? "beside" : "", src: answer.report + (what.part ? `#${what.part}` : ""), title: `${what.title}: report`, sandbox: "allow-scripts" }));
  }
  /** For a scenario without the page's section. */
  function example() {
    const text = STARTS[{ serve_curve: "serving", run: "run", learn: "learning", plan: "training", timeline: "training", memory: "training" }[what.verb]], section = { serve_curve: "serving", learn: "learning", run: "run" }[what.verb] || "training";
    return text && !new RegExp(`^${section}\\s*:`, "m").test(state.text || START) ? h("button", { onclick: () => { Object.assign(state, { text, file: null, path: "", answer: null, verb: "", pinned: null }); go(); } }, `Take an example with a section “${section}”`) : null;
  }
  if (what.now) go();
  return () => { running?.stop(); };
}

/** Open fields as the scenario of the editor. @param {any} fields @param {string} name */
export function open(fields, name) {
  Object.assign(state, { text: `# ${name}\n${Object.entries(fields).map(([k, v]) => `${k}: ${JSON.stringify(v)}`).join("\n")}\n`, file: null, path: name, answer: null, verb: "", pinned: null });
  location.hash = "#/scenario";
}
