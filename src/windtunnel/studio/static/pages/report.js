// The whole report of the verb: timeline, memory, load, failures, curves.
import { h, fill } from "../dom.js";
import { workPage } from "./work.js";

export const title = "Report";

/** @param {any} page @param {URLSearchParams} words `at`: the part of the report to begin at; it is then made at once */
export async function show(page, words) {
  const part = ["timeline", "memory"].find((name) => name === words.get("at"));
  return workPage(page, { title: "Report", verb: part ? "train" : "", start: "Make the report", comes: [["gantt", "bars", "table"], ["the whole report of the command, as one HTML file"], "As long as the command itself: below a second for a step, some seconds for a server, a run or a cluster."], part, now: Boolean(part), question: "Timeline and memory of a step, the latencies of serving, the days of a run, the jobs of a cluster, or the curves of learning, for the scenario of the editor.",
    draw(answer, at) { fill(at, answer.report ? null : h("p", { class: "muted" }, "This verb has no report.")); } });
}
