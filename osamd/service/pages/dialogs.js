// The dialogs of the label page: the guidelines, the person's own answers, an image at full size.

import { call } from "./api.js";
import { byId, count, el, moment, setText } from "./dom.js";

const SHOWN = 50; // own answers that are listed

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close(); // or a click beside the dialog
  });
}

export const isOpen = () => document.querySelector("dialog[open]") !== null;

/** An image over the whole page, enlarged pixel by pixel. */
export function zoom(source, words) {
  const image = byId("zoomed");
  Object.assign(image, { src: source, alt: words });
  byId("zoom").showModal();
}

/** The guidelines and the meaning of each class; without any, the button is hidden. */
export function prepareGuidelines(schema, classes) {
  const told = classes.filter(({ about }) => about);
  const button = byId("guide");
  button.hidden = !schema.guidelines && !told.length;
  const text = schema.guidelines.split(/\n{2,}/).filter(Boolean);
  byId("guide-text").replaceChildren(
    ...text.map((part) => el("p", {}, part)),
    el("dl", {}, ...told.flatMap(({ title, about }) => [el("dt", {}, el("bdi", {}, title)), el("dd", {}, about)])),
  );
  button.onclick = () => byId("guidelines").showModal();
}

/** The person's own answers, the latest first; each label can be corrected. */
export async function showHistory(classes, holder) {
  const list = byId("own");
  list.replaceChildren(el("li", {}, "Loading"));
  byId("history").showModal();
  try {
    const { answers } = await call("GET", `/v1/answers?limit=${SHOWN}`);
    list.replaceChildren(...answers.map((answer) => row(answer, classes, holder)));
    if (!answers.length) list.replaceChildren(el("li", {}, "You have not answered anything yet."));
  } catch (refused) {
    list.replaceChildren(el("li", {}, refused.message));
  }
}

const WORDS = { none: "None of these", unsure: "Don’t know" };

function row(answer, classes, holder) {
  const { round, at, kind, label } = answer;
  const title = classes.find(({ name }) => name === label)?.title ?? WORDS[kind] ?? String(label);
  const note = { second: " (second opinion)", correct: " (correction)" }[kind] ?? "";
  const said = el("span", { class: "said" }, el("bdi", {}, title), note);
  const line = el("li", {}, el("span", { class: "when" }, moment(at)), el("span", {}, `Round ${count(round)}`), said);
  if (kind !== "unsure" && kind !== "second") line.append(correction(round, label, classes, holder, said));
  return line;
}

function correction(round, label, classes, holder, said) {
  const options = classes.map(({ title }, i) => el("option", { value: i }, title));
  const choice = el("select", { "aria-label": `Correct round ${round}` }, el("option", { value: "" }, "Correct"), ...options);
  choice.addEventListener("change", async () => {
    const to = classes[Number(choice.value)];
    if (choice.value === "" || to.name === label) return;
    try {
      await call("POST", "/v1/corrections", { round, label: to.name, holder });
      said.replaceChildren(el("bdi", {}, to.title), " (correction)");
      setText(byId("own-note"), "Saved, and part of every export. The model has already learned from your first answer and cannot unlearn it.");
    } catch (refused) {
      setText(byId("own-note"), refused.message);
    }
  });
  return choice;
}
