// Numbers as people read them. Every shown figure keeps its exact value and its path in the result.

const SCALES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

/** @param {number} x @param {number} [digits] */
export function digits(x, digits = Number.isInteger(x) ? 9 : 3) {
  if (!Number.isFinite(x)) return "–";
  if (x !== 0 && (Math.abs(x) >= 1e9 || Math.abs(x) < 1e-4)) return x.toExponential(digits - 1);
  return Number(x.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 8 }).replace("-", "−");
}

/** @param {number} s */
export function seconds(s) {
  if (!Number.isFinite(s)) return "–";
  if (Math.abs(s) < 1e-9) return "0 s";
  if (Math.abs(s) < 1e-3) return `${digits(s * 1e6, 3)} µs`;
  if (Math.abs(s) < 1) return `${digits(s * 1e3, 3)} ms`;
  if (Math.abs(s) < 600) return `${digits(s, 3)} s`;
  if (Math.abs(s) < 7200) return `${digits(s / 60, 3)} min`;
  return Math.abs(s) < 172800 ? `${digits(s / 3600, 3)} h` : `${digits(s / 86400, 3)} days`;
}

/** A rate or an amount with its SI letter: 989.4 TFLOP/s, 3.35 TB/s, 38.8 kstarts. @param {number} x @param {string} unit */
export function rate(x, unit) {
  if (!unit) return digits(x);
  const [size, letter] = SCALES.find(([size]) => Math.abs(x) >= size) || [1, ""];
  return /FLOP|B/.test(unit) ? `${digits(x / size, 4)} ${letter}${unit}` : `${digits(x, 4)} ${unit}`;
}

/** An amount of money without its currency, small ones without exponents. @param {number} x */
export function money(x) {
  if (!Number.isFinite(x)) return "–";
  return Math.abs(x) >= 1e6 ? shown(x, "si").replace(" ", "\u00a0") : x.toLocaleString("en", { maximumSignificantDigits: Math.abs(x) >= 1000 ? 6 : 4, maximumFractionDigits: 12 }).replace("-", "−");
}

/** @param {number} x */
export function joules(x) {
  if (!Number.isFinite(x)) return "–";
  const [size, letter] = SCALES.find(([size]) => Math.abs(x) >= size) || [1, ""];
  return `${digits(x / size, 3)} ${letter}J`;
}

/** @param {any} value @param {string} unit */
export function shown(value, unit) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  if (typeof value === "object") return JSON.stringify(value);
  if (unit === "s") return seconds(value);
  if (unit === "bytes") return `${digits(value / 2 ** 30, 3)} GiB`;
  if (unit === "%") return `${digits(100 * value, 3)} %`;
  if (unit === "USD") return money(value);
  if (unit === "J") return joules(value);
  if (unit === "days") return `${digits(value, 3)} days`;
  if (unit === "si") {
    const [size, letter] = SCALES.find(([size]) => Math.abs(value) >= size) || [1, ""];
    return `${digits(value / size, 3)}${letter ? " " + letter : ""}`;
  }
  return unit ? `${digits(value)} ${unit}` : digits(value);
}

/** Value of a dotted path. @param {any} data @param {string} path */
export function at(data, path) { return path.split(".").reduce((x, name) => (x === null || x === undefined ? x : x[name]), data); }

/** Verb → [label, path, unit, path of the band, lower is better]. @type {Record<string, any[][]>} */
export const FIGURES = {
  train: [["step", "step_time_s", "s", "interval", 1], ["MFU (model FLOP use)", "mfu", "%", "", -1], ["tokens/s a device", "tokens_per_s_per_device", "", "", -1],
    ["peak memory", "peak_memory_reserved_bytes", "bytes", "", 1], ["fits", "memory_fits", ""], ["devices", "num_devices", ""],
    ["bound by", "bound_by", ""], ["watts a device", "mean_power_w", "W", "", 1], ["USD a million tokens", "cost_per_million_tokens", "USD", "", 1]],
  serve: [["TTFT (first token), mean", "ttft_s.mean", "s", "intervals.ttft_s", 1], ["TTFT, median", "ttft_s.p50", "s", "", 1], ["TTFT, 99 %", "ttft_s.p99", "s", "", 1], ["TPOT (each further token), mean", "tpot_s.mean", "s", "intervals.tpot_s", 1], ["TPOT, median", "tpot_s.p50", "s", "", 1],
    ["output tokens/s", "output_tokens_per_s", "", "intervals.output_tokens_per_s", -1], ["requests within the objective", "slo_attainment", "%", "", -1], ["saturated (queue grows)", "saturated", ""],
    ["KV cache at its fullest", "kv_cache_usage_max", "%"], ["bound by", "bound_by", ""], ["USD a million output tokens", "cost_per_million_output_tokens", "USD", "", 1]],
  run: [["days, mean", "days.mean", "days", "interval", 1], ["90 % end within", "days.p90", "days", "", 1], ["without failures", "ideal_days", "days", "", 1], ["goodput (time that counts)", "goodput", "%", "", -1],
    ["failures", "failures_mean", ""], ["save every", "checkpoint.interval_s", "s"], ["cost, USD", "cost", "USD", "", 1], ["energy", "energy_kwh", "kWh", "", 1], ["carbon", "carbon_kg", "kg", "", 1]],
  cluster: [["JCT (job completion), mean", "jct_s.mean", "s", "", 1], ["JCT, 99 %", "jct_s.p99", "s", "", 1], ["makespan", "makespan_s", "s", "", 1], ["queue, mean", "queue_s.mean", "s", "", 1],
    ["utilisation", "utilisation", "%", "", -1], ["fragmentation", "fragmentation", "%", "", 1], ["preemptions", "preemptions", ""], ["energy", "energy_kwh", "kWh", "", 1]],
  reason: [["best candidate", "best.label", ""], ["on", "best.model", ""], ["accuracy", "best.accuracy", "%", "best.accuracy_interval", -1], ["USD a problem", "best.cost_usd", "USD", "best.intervals.cost_usd", 1], ["energy a problem", "best.energy_j", "J", "", 1],
    ["latency, median", "best.latency_s.p50", "s", "best.intervals.latency_p50_s", 1], ["latency, 99 %", "best.latency_s.p99", "s", "best.intervals.latency_p99_s", 1], ["tokens a problem", "best.tokens", ""], ["devices", "best.num_devices", ""], ["problems simulated", "problems", ""]],
  learn: [["task", "task", ""], ["workers", "workers", ""], ["steps", "steps", ""], ["lowest loss there is", "floor", ""], ["worker-steps/s here", "worker_steps_per_s", ""], ["utilisation", "utilisation", "%"]],
};

/** A value of a table by the unit in its column's name. @param {string} name @param {any} x @param {number} [kept] digits */
export function named(name, x, kept = 4) {
  if (typeof x !== "number") return x === null || x === undefined ? "" : typeof x === "boolean" ? (x ? "yes" : "no") : String(x);
  if (/bytes(_|$)/.test(name) && !/per_s/.test(name)) return `${digits(x / 2 ** 30, kept)} GiB`;
  if (/(^|_)s(_(mean|std|p\d+|max|min|low|high))?$|^breakdown_|^interval_(low|high)$/.test(name) && !/per_s/.test(name)) return seconds(x);
  if (/^(mfu|hfu|goodput|slo_attainment|utilisation|kv_cache_usage_max)$|accuracy/.test(name)) return `${digits(100 * x, kept)} %`;
  return digits(x, kept);
}
