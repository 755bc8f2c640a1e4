// What opens over the label page: the guidelines, one's own answers, an image at full size.

import { call } from "./api.js";
import { byId, count, el, moment, setText } from "./dom.js";

const SHOWN = 50; // answers of one's own

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close(); // the dark around it, too
  });
}

export const isOpen = () => document.querySelector("dialog[open]") !== null;

/** An image over the whole page; a second look at it shows each pixel. */
export function zoom(source, words) {
  const image = byId("zoomed");
  Object.assign(image, { src: source, alt: words });
  byId("zoom").showModal();
}

/** Guidelines, with what each class means; the button is hidden where there is nothing to read. */
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

/** One's own answers, the last first; each label can be corrected. */
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
      setText(byId("own-note"), "Kept, and in every export. The model has learned from your first answer, and cannot unlearn it.");
    } catch (refused) {
      setText(byId("own-note"), refused.message);
    }
  });
  return choice;
}
