// How the pages talk to the service: JSON calls and live events.

import { here, kept } from "./dom.js";

const TIMEOUT = 20_000; // ms; a claim or a label takes milliseconds
const POLL_SHOWN = 3_000; // ms between two requests for the status while no events arrive
const POLL_HIDDEN = 15_000;
const REOPEN = [1_000, 2_000, 5_000, 10_000]; // ms before the events are requested again
const SILENCE = 40_000; // ms; the service sends its status at least every 15 s

/** A failed call. `passing`: trying again may help. `code`: the stable code of the service. */
export class Refused extends Error {
  constructor(message, { status = 0, code = "", passing = false } = {}) {
    super(message.charAt(0).toUpperCase() + message.slice(1));
    Object.assign(this, { status, code, passing });
  }
}

/** The response to one call; without a valid login, the page goes to /login and comes back. */
export async function call(method, path, body = undefined, { keepalive = false } = {}) {
  const request = { method, keepalive, headers: { Accept: "application/json" }, signal: AbortSignal.timeout(TIMEOUT) };
  if (body !== undefined) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify(body);
  }
  let response;
  let answer;
  try {
    response = await fetch(here(path), request);
    answer = await response.json();
  } catch (reason) {
    if (response?.ok === false) answer = null; // an error without JSON, perhaps from a proxy
    else throw new Refused("The service cannot be reached.", { passing: true, cause: reason });
  }
  if (response.ok) return answer;
  const { code = "", message = `The service answered ${response.status}.` } = answer?.error ?? {};
  if (response.status === 401 && path !== "/login") {
    kept.set("localStorage", "osamd-signed-in", null);
    location.assign(`${here("/login")}?next=${encodeURIComponent(location.pathname)}`);
  }
  const passing = response.status >= 500 || [401, 408, 429].includes(response.status);
  throw new Refused(message, { status: response.status, code, passing });
}

/**
 * Calls handlers[kind](document) on every event of the service, and handlers.connection("live" | "polling" | "lost").
 *
 * If no events arrive (they are blocked, or the page is hidden), the status is requested every few seconds. Hidden pages
 * keep no connection open, since a browser allows only six per address.
 */
export function listen(handlers) {
  let source = null;
  let refusals = 0;
  let timer = 0;

  const lookIn = (milliseconds) => {
    clearTimeout(timer);
    timer = setTimeout(look, milliseconds);
  };
  const close = () => {
    source?.close();
    source = null;
  };
  const open = () => {
    close();
    const opened = (source = new EventSource(here("/v1/events")));
    lookIn(POLL_SHOWN); // in case it never opens
    for (const [kind, handle] of Object.entries(handlers)) {
      if (kind === "connection") continue;
      opened.addEventListener(kind, (event) => {
        lookIn(SILENCE);
        refusals = 0;
        handlers.connection("live");
        handle(JSON.parse(event.data));
      });
    }
    opened.onerror = () => {
      if (opened !== source) return;
      const refused = opened.readyState === EventSource.CLOSED; // then the browser does not retry by itself
      if (refused) close();
      lookIn(refused ? REOPEN[Math.min(refusals++, REOPEN.length - 1)] : REOPEN[0]);
    };
  };
  const look = async () => {
    if (source?.readyState === EventSource.OPEN) close(); // it has been silent for too long
    try {
      handlers.status(await call("GET", "/v1/status"));
      handlers.connection("polling");
    } catch {
      handlers.connection("lost");
    }
    if (document.hidden) lookIn(POLL_HIDDEN);
    else if (source === null) open();
    else if (source.readyState !== EventSource.OPEN) lookIn(POLL_SHOWN);
  };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return source === null ? open() : undefined;
    close();
    return lookIn(POLL_HIDDEN);
  });
  open();
}
