// A scenario in the fragment of a link, which browsers do not send to servers.

/** Characters of a link's scenario at most: longer links are cut by mail and chat. */
export const MOST_LINK = 8000;
const MOST_TEXT = 200_000;

/** @param {Uint8Array} bytes @param {any} how @returns {Promise<Uint8Array>} */
async function through(bytes, how) {
  const stream = new Blob([bytes]).stream().pipeThrough(how).getReader(), parts = [];
  for (let size = 0, one; !(one = await stream.read()).done;) {
    size += one.value.length;
    if (size > MOST_TEXT) { stream.cancel(); throw new Error("the scenario is too long"); }
    parts.push(one.value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** @param {string} text @returns {Promise<string>} */
export async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate"));
  return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The scenario of a link. @param {string} code @returns {Promise<string>} */
export async function unpacked(code) {
  if (code.length > MOST_LINK) throw new Error("the link is too long");
  const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new TextDecoder("utf-8", { fatal: true }).decode(await through(bytes, new DecompressionStream("deflate")));
}
