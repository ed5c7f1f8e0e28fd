// What a page will hold, before there is anything to show: outlines without figures, what comes in words, and what it costs.
import { h } from "./dom.js";

const bar = (x, y, width, height) => h("rect", { x, y, width, height, rx: 2 });
const rows = (wide, tall) => Array.from({ length: 5 }, (_, i) => bar(4, 8 + i * tall, wide[i % wide.length], tall - 7));
/** Kind → outlines in a drawing of 200 by 90. @type {Record<string, () => any[]>} */
const OUTLINES = {
  bars: () => rows([180, 120, 90, 40, 20], 16),
  table: () => [0, 1, 2, 3, 4].flatMap((y) => [bar(4, 8 + y * 16, 60, 8), ...[80, 122, 164].map((x) => bar(x, 8 + y * 16, 28, 8))]),
  stacks: () => [0, 1, 2].flatMap((y) => [bar(4, 10 + y * 26, 80 + 12 * y, 16), bar(86 + 12 * y, 10 + y * 26, 40, 16), bar(128 + 12 * y, 10 + y * 26, 22, 16)]),
  gantt: () => [0, 1, 2, 3].flatMap((y) => Array.from({ length: 7 }, (_, i) => bar(4 + 10 * y + i * 23, 8 + y * 20, 20, 13))),
  curve: () => [h("polyline", { points: "6,80 50,76 90,68 120,52 150,26 194,8" }), h("polyline", { points: "6,84 60,82 110,78 150,62 194,40" })],
  falling: () => [h("polyline", { points: "6,8 30,40 60,58 100,68 194,76" }), h("polyline", { points: "6,14 40,34 80,50 130,58 194,62" })],
  cloud: () => [[20, 66], [40, 40], [58, 58], [76, 30], [92, 50], [120, 24], [140, 38], [168, 16], [184, 30]].map(([cx, cy]) => h("circle", { cx, cy, r: 5 })),
  histogram: () => [10, 26, 48, 70, 58, 38, 22, 14, 8].map((tall, i) => bar(6 + i * 21, 84 - tall, 17, tall)),
};

/** @param {string[]} kinds @param {string[]} comes what the page will show @param {string} cost how long it takes */
export function sketch(kinds, comes, cost) {
  return h("section", { class: "card sketch" }, h("div", { class: "triple", "aria-hidden": "true" }, kinds.map((kind) => h("svg", { viewBox: "0 0 200 90" }, OUTLINES[kind]()))),
    h("div", {}, h("p", {}, "What comes: ", comes.join("; "), "."), h("p", { class: "muted" }, cost)));
}
