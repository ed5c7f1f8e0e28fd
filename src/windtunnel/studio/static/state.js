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
