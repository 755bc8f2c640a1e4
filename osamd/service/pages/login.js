// Signs in with a token, and then goes where the person wanted to go.

import { call } from "./api.js";
import { byId, here, kept } from "./dom.js";

const form = byId("login");
const token = byId("token");
const error = byId("error");
const button = byId("sign-in");

/** The address to continue to: a path of this service, or the dashboard. */
function destination() {
  const next = new URLSearchParams(location.search).get("next") ?? "";
  if (!/^\/(?![/\\])/.test(next)) return here("/dashboard");
  const url = new URL(next, location.origin);
  const inside = url.origin === location.origin && !url.pathname.startsWith("//");
  return inside ? url.href : here("/dashboard");
}

function complain(text) {
  error.textContent = text;
  token.setAttribute("aria-invalid", text ? "true" : "false");
  if (text) token.focus();
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!token.value.trim()) {
    complain("Type or paste your token.");
    return;
  }
  button.disabled = true;
  complain("");
  try {
    await call("POST", "/login", { token: token.value.trim() });
    kept.set("localStorage", "osamd-signed-in", "yes");
    location.replace(destination());
  } catch (refused) {
    button.disabled = false;
    complain(refused.status === 401 ? "This token is not known. Check that you copied all of it." : refused.message);
    token.select();
  }
});
