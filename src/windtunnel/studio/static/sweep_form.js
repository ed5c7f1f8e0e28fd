// A sweep of the editor's scenario: fields and their values, how many cells and seconds, and the command that does the same.
import { h, fill, tell } from "./dom.js";
import { call, job } from "./api.js";
import { state, kinds, START } from "./state.js";
import { digits, seconds } from "./format.js";
import { problemLines } from "./problems.js";

const WAIT_MS = 500;
/** Command → fields that are swept most. @type {Record<string, [string, string][]>} */
const FIELDS = { train: [["plan.tp", "1,2,4,8"], ["plan.mbs", "1,2"], ["plan.pp", "1,2,4"], ["plan.zero", "1,2,3"], ["cluster.nodes", "1..8:x2"], ["cluster.device", "h100-sxm-80gb,h200-sxm-141gb"], ["training.global_batch", "64,128,256"], ["training.seq_len", "4096,8192"]],
  serve: [["serving.traffic.rate_per_s", "1..8:x2"], ["cluster.device", "h100-sxm-80gb,h200-sxm-141gb"], ["serving.pools[0].plan.tp", "1,2,4"], ["serving.pools[0].replicas", "1,2,4"]], run: [["cluster.nodes", "16..64:x2"], ["run.tokens", "100B,1T"]], cluster: [["jobs.policy", "fifo,backfill"]], learn: [["learning.workers", "2,4,8"]], reason: [["programs.problems", "100,200"]] };

/** @param {(folder: string) => void} done is told the folder of a sweep that is complete */
export function sweepForm(done) {
  const text = state.text || START, verb = kinds(text)[0] || "train", known = FIELDS[verb], name = state.path || "my.yaml";
  const axes = known.slice(0, 2).map(([field, values]) => ({ field, values }));
  let running = null, timer = 0, last = 0, cost = 0;
  const list = h("div", { class: "axes" }), told = h("p", { class: "muted", role: "status" }), wrong = h("div", {}), command = h("pre", { tabindex: 0 });
  const folder = h("input", { "aria-label": "Folder", size: 24, oninput: () => { folder.dataset.own = folder.value; words(); } });
  const start = h("button", { class: "main", onclick: go }, "Start the sweep"), stop = h("button", { disabled: true, onclick: () => running?.stop() }, "Stop");
  const vary = () => axes.filter((a) => a.field && a.values).map((a) => `${a.field}=${a.values}`);
  const asked = (more) => ({ text, file: state.file, verb, vary: vary(), folder: folder.value, ...more });
  function words() {
    if (!folder.dataset.own) folder.value = `runs/${axes.map((a) => a.field.split(".").pop()).filter(Boolean).join("-").replace(/[^\w-]/g, "") || "a"}`;
    command.textContent = `windtunnel sweep ${name} ${vary().map((v) => `--vary '${v}'`).join(" ")} --out ${folder.value}`;
    clearTimeout(timer); timer = setTimeout(count, WAIT_MS);
  }
  async function count() {
    const turn = ++last;
    if (!vary().length) { told.textContent = "No field varies yet."; return; }
    const found = await call("/api/sweeps", asked({ count: true }));
    if (turn !== last || found.replaced || running) return;
    start.disabled = !found.ok; cost = found.cpu_s || 0;
    fill(wrong, found.ok ? null : problemLines(found.problems || [], state, count));
    told.textContent = found.ok ? `${digits(found.cells)} cells, about ${seconds(found.cpu_s)} here${found.ok_share < 1 ? `; of some that were tried, ${digits(100 * (1 - found.ok_share), 2)} % have no answer: ${Object.keys(found.reasons)[0]}` : ""}.` : "";
  }
  function draw() {
    fill(list, axes.flatMap((a, i) => [h("input", { "aria-label": `Field ${i + 1}`, list: "swept-fields", value: a.field, placeholder: "plan.tp", oninput: (e) => { a.field = e.target.value.trim(); words(); } }), h("input", { "aria-label": `Values ${i + 1}`, value: a.values, placeholder: "1,2,4 or 8..64:x2", oninput: (e) => { a.values = e.target.value.trim(); words(); } }), h("button", { "aria-label": `Remove field ${i + 1}`, onclick: () => { axes.splice(i, 1); draw(); } }, "×")]));
    words();
  }
  async function go() {
    clearTimeout(timer); last++;
    start.disabled = true; stop.disabled = false; fill(wrong);
    running = job(asked({}), (s) => { told.textContent = `${Math.round(s)} s of about ${seconds(cost)}`; }, "/api/sweeps");
    const found = await running.done;
    running = null; start.disabled = false; stop.disabled = true; told.textContent = "";
    if (found.state === "stopped") { told.textContent = "Stopped; what was computed stays, and starting again goes on from there."; return; }
    if (!found.ok) { fill(wrong, problemLines(found.problems || [], state, go)); return; }
    tell("the sweep is complete"); done(folder.value);
  }
  draw();
  const add = () => { const next = known.find(([f]) => !axes.some((a) => a.field === f)); axes.push(next ? { field: next[0], values: next[1] } : { field: "", values: "" }); draw(); };
  return h("div", {}, h("p", {}, "Scenario: ", h("a", { href: "#/scenario" }, state.path || state.fields?.name || "new scenario"), ". Every combination of these values is predicted; one that is not allowed is a row with its reason."),
    list, h("datalist", { id: "swept-fields" }, known.map(([f]) => h("option", { value: f }))), h("div", { class: "row" }, h("button", { onclick: add }, "Vary another field"), h("label", {}, "rows go to ", folder), start, stop), told, wrong, h("p", { class: "muted" }, "The same in a terminal, on every core:"), command);
}
