/** The service's REST interface, as the page needs it; paths are relative, for proxies that add a prefix. */

/** A refusal or failure, ready to be shown. */
export class Problem extends Error {
  /**
   * @param {string} title
   * @param {string} detail
   * @param {{type?: string, status?: number, requestId?: string | null, retryAfterSeconds?: number}} [context]
   */
  constructor(title, detail, context = {}) {
    super(detail);
    this.title = title;
    this.detail = detail;
    this.type = context.type ?? "";
    this.status = context.status;
    this.requestId = context.requestId;
    this.retryAfterSeconds = context.retryAfterSeconds;
  }

  /** Whether it is the service's problem of that name (docs/errors.md). */
  is(name) {
    return this.type.endsWith(`/${name}`);
  }

  /** Whether another API key, or one at all, is what helps. */
  get asksForKey() {
    return this.status === 401 || this.status === 403;
  }
}

let apiKey = ""; // nowhere else: what a browser stores or has in an address, others can read

/**
 * Send a key with every request from now on; an empty one is none.
 *
 * @throws {Problem} it has characters that no key has
 */
export function useKey(text) {
  const key = text.trim();
  if (!/^[\x21-\x7e]*$/.test(key)) throw new Problem("This is no API key", "Expected letters, digits, “-” and “_” only.");
  apiKey = key;
}

/** @returns {Promise<object[]>} the models that the service knows, refused ones included */
export async function listModels() {
  const { body } = await request("v1/models");
  return body.data;
}

/**
 * Classify one text, with its steps.
 *
 * @returns {Promise<{answer: object, model: string, labels: string[], timing: Timing}>}
 * @throws {Problem} the service refused the text, failed, or cannot be reached
 */
export async function classify(text, model, truncate, signal) {
  const started = performance.now();
  const { body, response } = await request("classify", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input: text, model, explain: "steps", truncate }),
    signal,
  });
  const stages = parseServerTiming(response.headers.get("server-timing") ?? "");
  const timing = { stages, roundTripMs: performance.now() - started };
  return { answer: body.data[0], model: body.model, labels: body.labels, timing };
}

/**
 * @typedef {{stages: {name: string, durationMs: number}[], roundTripMs: number}} Timing
 * @param {string} header `name;dur=1.5, other;dur=0.2`; entries without a duration are left out
 */
export function parseServerTiming(header) {
  return header.split(",").flatMap((entry) => {
    const [name, ...parameters] = entry.split(";").map((part) => part.trim());
    const duration = parameters.find((parameter) => parameter.startsWith("dur="));
    return duration ? [{ name, durationMs: Number(duration.slice(4)) }] : [];
  });
}

async function request(path, options = {}) {
  const response = await reach(path, options);
  if (!response.ok) throw await readProblem(response);
  try {
    return { body: await response.json(), response };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (!(error instanceof SyntaxError)) {
      throw new Problem("The connection broke off", "A part of the answer is missing. Try again.");
    }
    throw new Problem("The answer could not be read", "Expected JSON from the service; something else came.");
  }
}

async function reach(path, options) {
  const headers = apiKey ? { ...options.headers, authorization: `Bearer ${apiKey}` } : options.headers;
  try {
    return await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("The service cannot be reached", "Check that it is running, then try again.");
  }
}

async function readProblem(response) {
  const problem = await response.json().catch(() => ({}));
  const retryAfterSeconds = Number(response.headers.get("retry-after"));
  return new Problem(
    problem.title ?? `The service answered ${response.status}`,
    problem.detail ?? (response.status >= 500 ? "Try again; where it stays, the service's log tells more." : ""),
    {
      type: problem.type,
      status: response.status,
      requestId: response.headers.get("x-request-id"),
      retryAfterSeconds: retryAfterSeconds > 0 ? retryAfterSeconds : undefined,
    },
  );
}
