// A scenario in the fragment of a link, which browsers do not send to servers.

/** @param {Uint8Array} bytes @param {any} how @returns {Promise<Uint8Array>} */
async function through(bytes, how) {
  const stream = new Blob([bytes]).stream().pipeThrough(how);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {string} text @returns {Promise<string>} */
export async function packed(text) {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate"));
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {string} code @returns {Promise<string>} */
export async function unpacked(code) {
  const bytes = Uint8Array.from(atob(code.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate")));
}
