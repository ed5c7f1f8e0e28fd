// What pages share: the scenario in the editor, its file, its last answer, and columns to compare.

export const state = {
  /** @type {string} */ text: "", /** @type {string|null} */ file: null, /** @type {string} */ path: "", /** @type {number|null} */ changed: null, /** @type {string|null} text of the file as it was read or saved */ disk: null, /** @type {any} fields of the text */ fields: null,
  /** @type {string} */ verb: "", /** @type {any} */ answer: null, /** @type {string|null} text that the answer is of */ answered: null, /** @type {any} */ pinned: null,
  /** @type {{name: string, title?: string, text: string, verb: string, result: any}[]} */ columns: [],
};

const KEPT = ["text", "file", "path", "changed", "disk", "verb", "columns"];

/** Keep the scenario and the columns for this tab, so that loading the page again loses nothing. */
export function keep() {
  try { sessionStorage.setItem("windtunnel", JSON.stringify(Object.fromEntries(KEPT.map((n) => [n, state[n]])))); } catch { sessionStorage.removeItem("windtunnel"); }
}

/** What this tab kept. */
export function restore() {
  try { const found = JSON.parse(sessionStorage.getItem("windtunnel") || "{}"); for (const n of KEPT) if (n in found) state[n] = found[n]; } catch { /* a page from before */ }
}

/** Begin with another text. @param {string} text @param {any} [more] */
export function take(text, more) {
  Object.assign(state, { text, file: null, path: "", changed: null, disk: null, fields: null, answer: null, answered: null, verb: "", pinned: null, problems: [] }, more);
  Object.assign(past, { before: [], after: [], by: "", at: 0 });
}

/** Sections of a scenario → the command that they mean, the first that is there. */
export const SECTIONS = { reason: "programs", learn: "learning", cluster: "jobs", run: "run", serve: "serving", train: "training" };

/** Commands whose sections a text has, the one that it means first. @param {string} text */
export function kinds(text) { return Object.keys(SECTIONS).filter((verb) => new RegExp(`^${SECTIONS[verb]}\\s*:`, "m").test(text)); }

const TOGETHER_MS = 900, MOST_PAST = 200;
/** Texts before and after this one, of the form's edits as of the editor's. */
const past = { /** @type {string[]} */ before: [], /** @type {string[]} */ after: [], by: "", at: 0 };

/** The text after an edit; edits of one kind that follow each other at once are undone together. @param {string} text @param {string} by */
export function edited(text, by) {
  if (text === state.text) return;
  const now = performance.now();
  if (by !== past.by || now - past.at > TOGETHER_MS || !past.before.length) past.before = [...past.before, state.text].slice(-MOST_PAST);
  Object.assign(past, { by, at: now, after: [] });
  state.text = text;
}

/** The text before the last edit, or after the last that was undone; null where there is none. @param {boolean} forward @returns {string|null} */
export function undone(forward) {
  const [from, to] = forward ? [past.after, past.before] : [past.before, past.after], text = from.pop();
  if (text === undefined) return null;
  to.push(state.text); past.by = "";
  return (state.text = text);
}

/** Whether there is something to undo, and to do again. */
export function undoable() { return [past.before.length > 0, past.after.length > 0]; }

export const START = `# A scenario: change anything and watch the figures.
model: meta-llama/Llama-3.1-8B
cluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 8}
training: {seq_len: 8192, global_batch: 64}
plan: {tp: 2, mbs: 1, zero: 1}
`;

/** Texts to begin with: what people ask → a scenario. @type {Record<string, string>} */
export const STARTS = {
  training: START,
  serving: `# A server: change anything and watch the figures.
model: meta-llama/Llama-3.1-8B
cluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 8}
serving:
  engine: vllm
  pools: [{replicas: 1, plan: {tp: 1}}]
  traffic: {rate_per_s: 4, num_requests: 300, input_tokens: 1024, output_tokens: 128}
  slo: {ttft_s: 1.0, tpot_s: 50 ms, percentile: 0.9}
`,
  run: `# A whole training run with its failures, saves and restarts.
model: meta-llama/Llama-3.1-8B
cluster: {device: h100-sxm-80gb, nodes: 16, devices_per_node: 8}
training: {seq_len: 8192, global_batch: 256}
plan: {tp: 1, pp: 1, mbs: 1, zero: 3}
run: {tokens: 1T, failures: opt-175b-2022, replications: 100, checkpoint: {tiers: [{to: storage}]}}
`,
  learning: `# Algorithms side by side on a small task, on the clock of a large one.
learning:
  task: logistic
  workers: 4
  steps: 600
  algorithms: [data_parallel, {diloco: {period: 10}}]
  seeds: 2
  step_s: 250 ms
  parameters: 100M
  layers: 12
  link: data-centre
`,
  reasoning: `# Best of n: what do more attempts at each problem buy, and what do they cost?
model: meta-llama/Llama-3.1-8B
cluster: {device: h100-sxm-80gb, nodes: 1, devices_per_node: 8}
programs:
  strategies:
    - {best_of_n: {n: [1, 4, 16], selector: checker}}
    - {best_of_n: {n: [4, 16], selector: majority}}
  problems: 200
  offline: true
  input_tokens: {distribution: lognormal, mean: 150, cv: 0.5}
  output_tokens: {distribution: lognormal, mean: 400, cv: 0.6}
  api_price: {input: 0.05, output: 0.08}      # USD a million tokens, to compare with
population: {beta: {a: 0.3, b: 1.2}}          # how often one attempt is right, over problems
search: {objective: accuracy, limits: {cost_per_task: 0.01, latency_p99_s: 60}}
`,
};
