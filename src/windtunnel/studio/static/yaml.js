// Small edits of a scenario's text that leave comments and order alone.

/** A value as YAML. @param {any} value @returns {string} */
export function scalar(value) {
  if (Array.isArray(value)) return `[${value.map(scalar).join(", ")}]`;
  if (value && typeof value === "object") return `{${Object.entries(value).map(([k, v]) => `${k}: ${scalar(v)}`).join(", ")}}`;
  if (typeof value === "string") return /^[A-Za-z_][\w./ -]*$/.test(value) && !/^(true|false|null|yes|no|on|off)$/i.test(value) ? value : JSON.stringify(value);
  return JSON.stringify(value);
}

/** The text with a dotted field set. @param {string} text @param {string} path @param {any} value @returns {string} */
export function setField(text, path, value) {
  const parts = path.replace(/\[(\d+)\]/g, ".$1").split(".");
  const lines = text.replace(/\s+$/, "").split("\n");
  return put(lines, parts, value, 0, lines.length, 0).join("\n") + "\n";
}

/** @param {string[]} lines @param {string[]} parts @param {any} value @param {number} from @param {number} to @param {number} indent @returns {string[]} */
function put(lines, parts, value, from, to, indent) {
  const [name, ...rest] = parts, pad = " ".repeat(indent);
  for (let i = from; i < to; i++) {
    const line = lines[i], match = line.match(/^(\s*)([^\s#:][^:]*):(.*)$/);
    if (!match || match[1].length !== indent || match[2].replace(/["']/g, "") !== name) continue;
    const [, , key, tail] = match, comment = (tail.match(/\s+#.*$/) || [""])[0], body = tail.slice(0, tail.length - comment.length).trim();
    if (!rest.length) { const end = blockEnd(lines, i, to, indent); lines.splice(i, body ? 1 : end - i, `${pad}${key}: ${scalar(value)}${comment}`); return lines; }
    if (/^[{[].*[}\]]$/.test(body)) { lines[i] = `${pad}${key}: ${inFlow(body, rest, value)}${comment}`; return lines; }
    if (body) { lines[i] = `${pad}${key}: ${flow(rest, value)}${comment}`; return lines; }
    const end = blockEnd(lines, i, to, indent);
    if (/^\d+$/.test(rest[0]) && rest.length > 1) return inItem(lines, rest, value, i + 1, listEnd(lines, i + 1, to, indent), indent);
    const inner = lines.slice(i + 1, end).map((l) => l.match(/^(\s*)\S/)).find((m) => m && m[1].length > indent);
    return put(lines, rest, value, i + 1, end, inner ? inner[1].length : indent + 2);
  }
  let end = to;
  while (end > from && !lines[end - 1].trim()) end--;
  lines.splice(end, 0, `${pad}${name}: ${rest.length ? flow(rest, value) : scalar(value)}`);
  return lines;
}

/** In one item of a list written with dashes, on one line each or as blocks. @param {string[]} lines @param {string[]} parts @param {any} value @param {number} from @param {number} to @param {number} indent @returns {string[]} */
function inItem(lines, parts, value, from, to, indent) {
  const dash = lines.slice(from, to).map((l) => l.match(/^(\s*)- /)).find(Boolean), at = dash ? dash[1].length : indent;
  const starts = lines.map((l, i) => (i >= from && i < to && l.startsWith(`${" ".repeat(at)}- `) ? i : -1)).filter((i) => i >= 0);
  const start = starts[Number(parts[0])], end = starts[Number(parts[0]) + 1] ?? to;
  if (start === undefined) return lines;
  const line = lines[start], comment = (line.match(/\s+#.*$/) || [""])[0], body = line.slice(at + 2, line.length - comment.length).trim();
  if (body.startsWith("{") && body.endsWith("}")) { lines[start] = `${" ".repeat(at)}- ${inFlow(body, parts.slice(1), value)}${comment}`; return lines; }
  const inside = line.slice(at + 1).match(/^\s*/)[0].length + at + 1;
  lines[start] = `${" ".repeat(inside)}${line.slice(inside)}`;
  const done = put(lines, parts.slice(1), value, start, end, inside);
  done[start] = `${" ".repeat(at)}-${done[start].slice(at + 1)}`;
  return done;
}

/** Where the items below a key end: dashes may stand at the key's own indent. @param {string[]} lines @param {number} i @param {number} to @param {number} indent */
function listEnd(lines, i, to, indent) {
  let end = i;
  while (end < to && (!lines[end].trim() || lines[end].match(/^\s*/)[0].length > indent || lines[end].startsWith(`${" ".repeat(indent)}- `) || /^\s*#/.test(lines[end]))) end++;
  return end;
}

/** @param {string[]} lines @param {number} i @param {number} to @param {number} indent */
function blockEnd(lines, i, to, indent) {
  let end = i + 1;
  while (end < to && (!lines[end].trim() || lines[end].match(/^\s*/)[0].length > indent || /^\s*#/.test(lines[end]))) end++;
  return end;
}

/** @param {string[]} parts @param {any} value @returns {string} */
function flow(parts, value) { return parts.length ? `{${parts[0]}: ${flow(parts.slice(1), value)}}` : scalar(value); }

/** @param {string} body @param {string[]} parts @param {any} value @returns {string} */
function inFlow(body, parts, value) {
  const items = split(body.slice(1, -1)), [name, ...rest] = parts;
  if (body.startsWith("[")) { const n = Number(name); if (n in items) items[n] = rest.length ? inFlow(items[n], rest, value) : scalar(value); return `[${items.join(", ")}]`; }
  const found = items.findIndex((item) => item.split(":")[0].trim().replace(/["']/g, "") === name);
  const old = found < 0 ? "" : items[found].slice(items[found].indexOf(":") + 1).trim();
  const written = `${name}: ${!rest.length ? scalar(value) : /^[{[]/.test(old) ? inFlow(old, rest, value) : flow(rest, value)}`;
  if (found < 0) items.push(written); else items[found] = written;
  return `{${items.join(", ")}}`;
}

/** @param {string} text */
function split(text) {
  const out = []; let depth = 0, last = 0, quote = "";
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quote) { if (c === quote) quote = ""; } else if (c === '"' || c === "'") quote = c;
    else if (c === "{" || c === "[") depth++; else if (c === "}" || c === "]") depth--;
    else if (c === "," && !depth) { out.push(text.slice(last, i).trim()); last = i + 1; }
  }
  if (text.slice(last).trim()) out.push(text.slice(last).trim());
  return out;
}
