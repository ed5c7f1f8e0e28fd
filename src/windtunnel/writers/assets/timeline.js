// Draws the simulated step twice: all of it in a narrow strip, and a window of it below. One band a stage, one lane a
// stream. In the window drag pans, hover marks a micro-batch, and once it has the focus the wheel and + and − zoom, the
// arrow keys pan and Home shows the whole step; a click or drag in the strip moves the window. Colours follow the theme.
// Events arrive as deflated columns (see views/timeline.py); only what is on screen is drawn. A report draws its own; the
// studio's page calls the function, and what it returns ends it.
globalThis.windtunnelTimeline = function (box, meta, packed, root) {
  "use strict";
  const ended = new AbortController(), also = { signal: ended.signal };
  const tip = box.querySelector(".tip");
  const GAP = 4, AXIS = 24;
  const LEFT = box.clientWidth < 480 ? 26 : 64, NAME = LEFT < 60 ? "" : "stage ";
  let columns = null, rows = [], hover = -1, frame = 0;

  async function inflate(text) {
    const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  function unpack(buffer) {
    const n = meta.n;
    let at = 0;
    const take = (Type) => { const a = new Type(buffer.slice(at, at + n * Type.BYTES_PER_ELEMENT)); at += n * Type.BYTES_PER_ELEMENT; return a; };
    const gap = take(Int32Array), length = take(Int32Array), micro = take(Int32Array), tag = take(Int16Array), chunk = take(Int16Array);
    const start = new Float64Array(n), end = new Float64Array(n);
    rows = meta.lanes.map((l) => ({ stage: l[0], stream: l[1], from: l[2], to: l[3] }));
    for (const lane of rows) {
      let t = 0, latest = 0;
      for (let i = lane.from; i < lane.to; i++) {
        t += gap[i];
        start[i] = t * meta.tick_s;
        end[i] = (t + length[i]) * meta.tick_s;
        latest = Math.max(latest, length[i] * meta.tick_s);
      }
      lane.longest = latest;
    }
    return { start, end, micro, tag, chunk };
  }

  const styles = getComputedStyle(box);
  let paper = false;
  const themed = (hex) => (!paper && styles.getPropertyValue("--wt-" + hex.slice(1)).trim()) || hex;
  const shades = new Map();
  let ink = "", muted = "", soft = "", line = "", veil = "";
  function readTheme() {
    ink = themed("#1f2a33"); muted = themed("#5b6871"); soft = themed("#eef2f5"); line = themed("#9aa8b2");
    veil = themed("#f4f6f8") + "99";
    shades.clear();
  }
  function shade(tag, chunk) {
    const key = tag * 64 + Math.max(chunk, 0);
    if (!shades.has(key)) {
      const hex = themed(meta.colours[tag]), most = Math.max(meta.chunks - 1, 1);
      const mix = chunk > 0 ? 0.42 * Math.min(chunk, most) / most : 0;
      const part = (i) => { const v = parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16); return Math.round(v + (255 - v) * mix); };
      shades.set(key, "rgb(" + part(0) + "," + part(1) + "," + part(2) + ")");
    }
    return shades.get(key);
  }

  function firstVisible(lane, t) {
    let low = lane.from, high = lane.to;
    while (low < high) { const mid = (low + high) >> 1; if (columns.start[mid] < t) low = mid + 1; else high = mid; }
    return low;
  }


  function redraw() { if (!frame) frame = requestAnimationFrame(() => { frame = 0; strip.draw(); detail.draw(); }); }

  // One canvas: its lanes, the span of time it shows, and how tall a stage is.
  function panel(canvas, from, to, total, most, least, share) {
    const ctx = canvas.getContext("2d");
    const self = { canvas, view: [from, to], lanes: [], height: 0, frame: null };
    self.plot = () => canvas.clientWidth - LEFT - 6;
    self.x = (t) => LEFT + (t - self.view[0]) / (self.view[1] - self.view[0]) * self.plot();
    self.time = (px) => self.view[0] + (px - LEFT) / self.plot() * (self.view[1] - self.view[0]);

    self.layout = () => {
      const stages = [...new Set(rows.map((l) => l.stage))];
      const band = Math.max(least, Math.min(most, Math.floor(total / stages.length) - GAP));
      let y = 2;
      self.lanes = [];
      for (const stage of stages) {
        const mine = rows.filter((l) => l.stage === stage);
        const thin = mine.length > 1 ? Math.min(share * band / (mine.length - 1), 9) : 0;
        let at = y;
        mine.forEach((lane, i) => {
          const h = i === 0 ? band - thin * (mine.length - 1) : thin;
          self.lanes.push(Object.assign({}, lane, { y: at, h: h, top: y, band: band, first: i === 0 }));
          at += h;
        });
        y += band + GAP;
      }
      self.height = y + AXIS;
      self.resize();
    };

    self.resize = () => {
      const ratio = window.devicePixelRatio || 1;
      canvas.style.height = self.height + "px";
      canvas.width = Math.round(canvas.clientWidth * ratio);
      canvas.height = Math.round(self.height * ratio);
      ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    };

    self.show = (a, b) => {
      const span = Math.min(Math.max(b - a, meta.span_s * 1e-6), meta.span_s);
      a = Math.min(Math.max(a, 0), meta.span_s - span);
      self.view = [a, a + span];
      redraw();
    };

    self.draw = () => {
      if (!columns) return;
      const width = canvas.clientWidth, plot = self.plot(), view = self.view;
      ctx.clearRect(0, 0, width, self.height);
      ctx.font = (self.lanes[0].band < 14 ? "10px" : "12px") + " sans-serif";
      ctx.textBaseline = "middle";
      for (const lane of self.lanes.filter((l) => l.first)) {
        ctx.fillStyle = soft;
        ctx.fillRect(LEFT, lane.top, plot, lane.band);
        if (lane.band < 9) continue;
        ctx.fillStyle = muted;
        ctx.textAlign = "right";
        ctx.fillText(NAME + lane.stage, LEFT - 8, lane.top + lane.band / 2);
      }
      ctx.save();
      ctx.beginPath();
      ctx.rect(LEFT, 0, plot, self.height);
      ctx.clip();
      self.lanes.forEach(events);
      ctx.restore();
      ctx.globalAlpha = 1;
      axis(plot);
      if (self.frame) {
        const a = self.x(self.frame[0]), w = Math.max(self.x(self.frame[1]) - a, 3);
        ctx.fillStyle = veil;
        ctx.fillRect(LEFT, 0, a - LEFT, self.height - AXIS);
        ctx.fillRect(a + w, 0, LEFT + plot - a - w, self.height - AXIS);
        ctx.strokeStyle = ink;
        ctx.lineWidth = 1.5;
        ctx.strokeRect(a, 1, w, self.height - AXIS - 3);
        ctx.lineWidth = 1;
      }
    };

    function events(lane) {
      let lastX = -1, lastKey = "";
      const view = self.view;
      for (let i = firstVisible(lane, view[0] - lane.longest); i < lane.to && columns.start[i] < view[1]; i++) {
        if (columns.end[i] <= view[0]) continue;
        const a = self.x(columns.start[i]), w = self.x(columns.end[i]) - a;
        const micro = columns.micro[i], marked = hover >= 0 && micro === hover;
        const colour = shade(columns.tag[i], columns.chunk[i]);
        const pixel = Math.round(a * 2), key = colour + marked;
        if (w < 0.5 && pixel === lastX && key === lastKey) continue;
        lastX = pixel; lastKey = key;
        ctx.globalAlpha = hover >= 0 && !marked ? 0.22 : 1;
        ctx.fillStyle = colour;
        ctx.fillRect(a, lane.y, Math.max(w - (w > 3 ? 0.6 : 0), 0.5), lane.h);
        if (w > 15 && lane.h > 13 && micro >= 0 && !self.frame) {
          ctx.fillStyle = "rgba(255,255,255,.95)";
          ctx.textAlign = "center";
          ctx.fillText(String(micro + 1), a + w / 2, lane.y + lane.h / 2 + 0.5);
        }
      }
    }

    function axis(plot) {
      const view = self.view, rough = (view[1] - view[0]) / Math.max(plot / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough), y = self.height - AXIS + 3;
      const unit = step >= 0.5 ? [1, " s"] : step >= 5e-4 ? [1e3, " ms"] : [1e6, " µs"];
      const digits = Math.max(0, -Math.floor(Math.log10(step * unit[0]) + 1e-9));
      ctx.font = "12px sans-serif";
      ctx.strokeStyle = line;
      ctx.fillStyle = muted;
      ctx.textAlign = "center";
      for (let t = Math.ceil(view[0] / step) * step; t <= view[1]; t += step) {
        ctx.beginPath(); ctx.moveTo(self.x(t), y - 3); ctx.lineTo(self.x(t), y + 3); ctx.stroke();
        ctx.fillText((t * unit[0]).toFixed(digits) + unit[1], self.x(t), y + 12);
      }
    }
    return self;
  }

  const canvases = box.querySelectorAll("canvas"), first = meta.first_view_s;
  const strip = panel(canvases[0], 0, meta.span_s, 150, 20, 4, 0);
  const detail = panel(canvases[1], first[0], first[1], 520, 60, 11, 0.42);
  strip.frame = detail.view;
  const show = detail.show;
  detail.show = (a, b) => { show(a, b); strip.frame = detail.view; };

  let drag = null;
  function zoom(factor) {
    const [a, b] = detail.view, at = 0.5 * (a + b);
    detail.show(at - (at - a) * factor, at + (b - at) * factor);
  }
  detail.canvas.addEventListener("keydown", (e) => {
    const [a, b] = detail.view, step = 0.15 * (b - a);
    if (e.key === "ArrowRight") detail.show(a + step, b + step);
    else if (e.key === "ArrowLeft") detail.show(a - step, b - step);
    else if (e.key === "+" || e.key === "=") zoom(0.7);
    else if (e.key === "-" || e.key === "−") zoom(1 / 0.7);
    else if (e.key === "Home") detail.show(0, meta.span_s);
    else return;
    e.preventDefault();
  });
  detail.canvas.addEventListener("wheel", (e) => {
    if (document.activeElement !== detail.canvas && !e.ctrlKey) return;
    e.preventDefault();
    const at = detail.time(e.offsetX), factor = Math.exp(e.deltaY * 0.0016), view = detail.view;
    detail.show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
  }, { passive: false });
  detail.canvas.addEventListener("pointerdown", (e) => { drag = { x: e.clientX, view: detail.view }; detail.canvas.classList.add("dragging"); });
  detail.canvas.addEventListener("dblclick", () => detail.show(0, meta.span_s));
  detail.canvas.addEventListener("pointerleave", () => { tip.style.display = "none"; if (hover >= 0) { hover = -1; redraw(); } });
  strip.canvas.addEventListener("pointerdown", (e) => { drag = { strip: true }; centre(e.offsetX); });
  strip.canvas.addEventListener("pointermove", (e) => { if (drag && drag.strip) centre(e.offsetX); });
  window.addEventListener("pointerup", () => { drag = null; detail.canvas.classList.remove("dragging"); }, also);
  window.addEventListener("pointermove", (e) => {
    if (!drag || drag.strip) return;
    const moved = (drag.x - e.clientX) / detail.plot() * (drag.view[1] - drag.view[0]);
    detail.show(drag.view[0] + moved, drag.view[1] + moved);
  }, also);

  function centre(px) {
    const t = strip.time(px), half = (detail.view[1] - detail.view[0]) / 2;
    detail.show(t - half, t + half);
  }

  detail.canvas.addEventListener("pointermove", (e) => {
    if (!columns || drag) return;
    const t = detail.time(e.offsetX), lane = detail.lanes.find((l) => e.offsetY >= l.y && e.offsetY < l.y + l.h);
    let found = -1;
    if (lane && e.offsetX >= LEFT) {
      for (let i = firstVisible(lane, t - lane.longest); i < lane.to && columns.start[i] <= t; i++) if (columns.end[i] >= t) found = i;
    }
    const micro = found >= 0 ? columns.micro[found] : -1;
    if (micro !== hover) { hover = micro; redraw(); }
    if (found < 0) { tip.style.display = "none"; return; }
    const took = columns.end[found] - columns.start[found];
    tip.textContent = meta.tags[columns.tag[found]] + " · stage " + lane.stage + ", " + meta.streams[lane.stream] +
      (micro >= 0 ? " · micro-batch " + (micro + 1) : "") + (columns.chunk[found] >= 0 ? " · chunk " + columns.chunk[found] : "") +
      " · " + (took >= 1e-3 ? (took * 1e3).toFixed(3) + " ms" : (took * 1e6).toFixed(2) + " µs") + " at " + columns.start[found].toFixed(4) + " s";
    tip.style.display = "block";
    tip.style.left = Math.min(e.offsetX + 14, detail.canvas.clientWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = detail.canvas.offsetTop + e.offsetY + 16 + "px";
  });
  root.querySelectorAll("[data-view]").forEach((button) => button.addEventListener("click", () => {
    const span = meta.span_s, [a, b] = JSON.parse(button.dataset.view);
    detail.show(a * span, b * span);
  }));
  window.addEventListener("pointercancel", () => { drag = null; }, also);
  window.addEventListener("themechange", () => { readTheme(); redraw(); }, also);
  function drawFor(print) {  // paper is light, whatever the screen is
    paper = print;
    if (!columns) return;
    readTheme();
    for (const one of [strip, detail]) { one.resize(); one.draw(); }
  }
  window.addEventListener("beforeprint", () => drawFor(true), also);
  window.addEventListener("afterprint", () => drawFor(false), also);
  window.addEventListener("resize", () => { if (columns) { strip.resize(); detail.resize(); redraw(); } }, also);

  if (typeof DecompressionStream === "undefined") {
    box.textContent = "This browser is too old to show the timeline (it lacks DecompressionStream).";
    return () => ended.abort();
  }
  inflate(packed.trim()).then((buffer) => {
    columns = unpack(buffer);
    readTheme();
    strip.layout();
    detail.layout();
    redraw();
  });
  return () => ended.abort();
};
if (document.getElementById("timeline-meta")) globalThis.windtunnelTimeline(document.getElementById("timeline"), JSON.parse(document.getElementById("timeline-meta").textContent), document.getElementById("timeline-data").textContent, document);
