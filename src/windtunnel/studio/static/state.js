// What pages share: the scenario in the editor, its file, its last answer, and columns to compare.

export const state = {
  /** @type {string} */ text: "", /** @type {string|null} */ file: null, /** @type {string} */ path: "", /** @type {number|null} */ changed: null,
  /** @type {string} */ verb: "", /** @type {any} */ answer: null, /** @type {any} */ pinned: null,
  /** @type {{name: string, text: string, verb: string, result: any}[]} */ columns: [],
};

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
plan: {tp: 1, pp: 1, mbs: 1, zero: 1}
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
};
