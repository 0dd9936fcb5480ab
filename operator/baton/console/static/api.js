// Requests to the console's server. The token is in a header of each request, so no other page can make the browser send it.

const KEY = "baton-console-token";
let token = sessionStorage.getItem(KEY);

export const hasToken = () => token !== null;

export function useToken(value) {
  token = value;
  if (value === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, value);
}

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, query = {}, options = {}) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, {
    ...options,
    headers: token === null ? {} : { Authorization: `Bearer ${token}` },
    cache: "no-store",
  });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refusal(answer.status, said.error || `the console answered with status ${answer.status}`);
}

export const read = async (...request) => (await ask(...request)).json();

const LATE = 5000; // milliseconds
const FULL = "The console has not answered yet. A browser opens at most six connections to a server, for all tabs together: close tabs of this console that you do not need.";

// Server-sent events by fetch, because an EventSource cannot send headers. Calls `told(kind, seconds, data)` for each event, and
// `state(text)` when the connection changes.
export function stream(path, query, told, state) {
  const end = new AbortController();
  (async () => {
    for (let wait = 500; !end.signal.aborted; wait = Math.min(wait * 2, 10000)) {
      const late = setTimeout(() => state(FULL), LATE);
      try {
        const answer = await ask(path, query, { signal: end.signal });
        clearTimeout(late);
        state("");
        wait = 500;
        if (await events(answer.body.getReader(), told)) return;
        state("The connection ended; reconnecting.");
      } catch (error) {
        if (end.signal.aborted) return;
        if (error instanceof Refusal && error.status !== 503) return told("refused", null, { status: error.status, error: error.message });
        state(`As last seen: ${error instanceof Refusal ? error.message : "the console does not answer"}.`);
      } finally {
        clearTimeout(late);
      }
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  })();
  return () => end.abort();
}

async function events(reader, told) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return false;
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      if (!fields.event) continue;
      told(fields.event, Number(fields.id), JSON.parse(fields.data));
      if (fields.event === "refused") return true;
    }
  }
}
