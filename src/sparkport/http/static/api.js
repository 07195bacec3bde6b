// Calls of the server. A lost session and a server that is down are told apart from all other errors.

export class ApiError extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

async function send(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. It may have been stopped; this page tries again.", "DOWN");
  }
  if (response.ok) return response;
  let body = {};
  try {
    body = await response.json();
  } catch {
    body = { error: `${response.status} ${response.statusText}`, code: "HTTP" };
  }
  throw new ApiError(body.error, body.code);
}

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return (await send(query ? `${path}?${query}` : path)).json();
}

export function post(path, body, signal) {
  return send(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-sparkport-console": "1" },
    body: JSON.stringify(body),
    signal,
  });
}

export async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}
