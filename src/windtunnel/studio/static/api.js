// Calls to the server. Every answer is JSON; what is wrong comes as `problems`.

/** This tab: the server answers the latest edit of each. */
export const TAB = Array.from(crypto.getRandomValues(new Uint8Array(12)), (n) => n.toString(16).padStart(2, "0")).join("");

let asked = 0;

/** @param {string} path @param {any} [body] @param {string} [method] @returns {Promise<any>} */
export async function call(path, body, method) {
  const how = body === undefined && !method ? { headers: { "windtunnel-tab": TAB } } : {
    method: method || "POST", headers: { "content-type": "application/json", "windtunnel-tab": TAB, "windtunnel-edit": String(++asked) }, body: JSON.stringify(body ?? {}),
  };
  try {
    const answer = await fetch(path, how);
    if (answer.status === 401) return lost("This page is no longer signed in: start the studio again and open its address.");
    return await answer.json();
  } catch (error) {
    return lost("The studio does not answer: it was stopped, or the connection broke.");
  }
}

/** @param {string} message */
function lost(message) { return { ok: false, lost: true, problems: [{ message }] }; }

/** Run long work as a job. @param {any} asked @param {(seconds: number) => void} told @param {string} [path] @returns {{done: Promise<any>, stop: () => Promise<any>}} */
export function job(asked, told, path = "/api/job") {
  let id = "", stopped = false;
  const begun = performance.now(), over = { ok: false, state: "stopped", problems: [] };
  const cancel = () => call(`/api/job/${id}`, {}, "DELETE");
  async function run() {
    const started = await call(path, asked);
    if (!started.ok) return started;
    id = started.id;
    if (stopped) { await cancel(); return over; } // left before it had a name
    for (;;) {
      await new Promise((wake) => setTimeout(wake, 400));
      told((performance.now() - begun) / 1000);
      const state = await call(`/api/job/${id}`);
      if (stopped) return over;
      if (state.state !== "running") return state;
    }
  }
  return { done: run(), stop: () => { stopped = true; return id ? cancel() : Promise.resolve(over); } };
}
