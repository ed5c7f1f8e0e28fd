// Where does the step wait? Every stage's streams over the step, and what its seconds are.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";
import { bars } from "../charts.js";
import { seconds, digits, shown } from "../format.js";
import { figure, figures, grid } from "../plots.js";
import { dark } from "../view.js";

export const title = "Timeline";
const VIEWS = [["whole step", "[0,1]"], ["start", "[0,0.06]"], ["middle", "[0.47,0.53]"], ["end", "[0.94,1]"]];

/** @param {any} page */
export async function show(page) {
  await import("/static/timeline.js");
  let end = () => {};
  const leave = workPage(page, { title: "Timeline", verb: "timeline", now: true, native: true, start: "Draw again", comes: [["gantt"], ["every stage and its streams over the step"], "Below a second for most steps."], question: "The simulated step of the editor's scenario, stage by stage: where it computes, where it waits, what hides what.",
    origin: () => ({ verb: "train" }), draw(answer, at) {
      const r = answer.result, box = h("div", { id: "timeline" }, h("canvas", { class: "strip", role: "img", "aria-label": `timeline of ${answer.timeline.stages} stages` }), h("canvas", { class: "window", tabindex: 0, role: "img", "aria-label": "window of the timeline; arrow keys pan, plus and minus zoom" }), h("div", { class: "tip" }));
      const card = h("section", { class: "card" }, h("div", { class: "row" }, VIEWS.map(([said, ends]) => h("button", { "data-view": ends }, said)), answer.trace ? h("span", {}, h("a", { href: answer.trace, download: "windtunnel-trace.json" }, "Save the trace"), h("span", { class: "muted" }, " for ui.perfetto.dev")) : null, answer.report ? h("a", { href: answer.report, target: "_blank", rel: "noopener" }, "Open it in a page of its own") : null), box,
        h("div", { class: "row keys" }, [...answer.timeline.colours, ["idle", ""]].map(([name, colour]) => { const key = h("span", { class: "swatch" }); key.style.background = colour ? `var(--wt-${colour.slice(1)}, ${colour})` : "var(--soft)"; return h("span", {}, key, " ", name); })), h("p", { class: "muted" }, answer.timeline.hint));
      fill(at, h("section", { class: "card" }, figures(r, [["step", "step_time_s", seconds], ["stages", "plan.pp", (x) => digits(x)], ["micro-batches", "num_micro_batches", (x) => digits(x)], ["schedule", "plan.schedule", String], ["bound by", "bound_by", String]])), card,
      h("section", { class: "card" }, h("h2", {}, "Where the time goes"), bars(Object.entries(r.breakdown), seconds, "Where the time goes", "breakdown")),
      r.stages?.length ? h("section", { class: "card" }, h("h2", {}, "Stages"), h("p", { class: "muted" }, "Seconds of one micro-batch on each stage; the slowest sets the pace."), grid(["stage", "layers", "forward", "backward", "peak memory"], r.stages.map((s, i) => [`stage ${s.stage}`,
        figure(r, `stages.${i}.layers`, (x) => digits(x)), figure(r, `stages.${i}.forward_s`, seconds), figure(r, `stages.${i}.backward_s`, seconds), figure(r, `stages.${i}.memory_bytes`, (x) => shown(x, "bytes"))]), "Stages")) : null);
      const colours = () => { for (const [name, value] of Object.entries(answer.timeline.dark)) if (dark()) card.style.setProperty(name, value); else card.style.removeProperty(name); };
      end(); colours();
      window.addEventListener("themechange", colours);
      const stop = globalThis.windtunnelTimeline(box, answer.timeline.meta, answer.timeline.data, card);
      end = () => { stop(); window.removeEventListener("themechange", colours); };
    } });
  return () => { leave(); end(); };
}
