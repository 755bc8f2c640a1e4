// What the pages share: the title of the task, signing out, and whether the numbers are live.

import { call } from "./api.js";
import { byId, here, kept, setText } from "./dom.js";

const STATES = {
  live: ["live", "Live"],
  polling: ["slow", "Updated every few seconds"],
  lost: ["lost", "No connection"],
};

/** Shows how the page gets its numbers: live, by polling, or not at all. */
export function showConnection(state) {
  const [style, text] = STATES[state];
  byId("connection").className = `connection ${style}`;
  setText(byId("connection"), text);
}

/** The document of /v1/schema, requested until it arrives. */
export async function schemaOf() {
  for (let wait = 500; ; wait = Math.min(2 * wait, 10_000)) {
    try {
      const schema = await call("GET", "/v1/schema");
      setText(byId("task"), schema.title || "");
      return schema;
    } catch (refused) {
      if (!refused.passing) {
        showConnection("lost");
        throw refused;
      }
      showConnection("lost");
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }
}

const signOut = byId("sign-out");
if (kept.get("localStorage", "osamd-signed-in")) signOut.hidden = false;
signOut.addEventListener("click", async () => {
  await call("POST", "/logout", {}).catch(() => {});
  kept.set("localStorage", "osamd-signed-in", null);
  location.assign(here("/login"));
});
