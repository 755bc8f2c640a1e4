// The label page: one sample at a time, answered by key, mouse or touch.

import { listen } from "./api.js";
import { Desk, UNDO } from "./desk.js";
import { byId, compact, count, kept, moment, percent, setText, UNKNOWN } from "./dom.js";
import { schemaOf, showConnection } from "./frame.js";
import { Choices } from "./choices.js";
import { isOpen, prepareGuidelines, showHistory } from "./dialogs.js";
import { doubt, ranked, showDoubt, showSample } from "./sample.js";

const STATES = {
  loading: ["Loading", ""],
  lost: ["Paused", ""], // the note says why
  empty: ["Nothing to answer", "No question is waiting."],
};

const page = byId("page");
const panel = { guess: byId("guess"), margin: byId("margin"), words: byId("words"), bars: byId("bars") };
const order = byId("order");
const undo = byId("undo");
const skip = byId("skip");
const others = [skip, byId("unsure"), byId("none")]; // answers without a class
const reveal = byId("reveal");
const mobile = matchMedia("(max-width: 760px)");

let classes = [];
let units = new Map();
let choices = null;
let guessing = false; // whether the guess is shown
let status = null;
let shown = null; // the query on the page

const desk = new Desk({ changed, say: (text) => setText(byId("note"), text), order: () => order.value });

function changed() {
  const query = desk.queue[0] ?? null;
  const waits = desk.busy || !desk.ready ? "loading" : "empty";
  const state = query ? "sample" : desk.failing ? "lost" : waits;
  if (query !== shown || state !== page.dataset.state) show(query, state);
  setText(byId("answered"), count(desk.answered));
  undo.setAttribute("aria-disabled", desk.staged ? "false" : "true");
  if (undo.dataset.round !== String(desk.staged?.round ?? "")) {
    undo.dataset.round = desk.staged?.round ?? "";
    undo.classList.remove("running");
    if (desk.staged) {
      void undo.offsetWidth; // restarts the shrinking bar
      undo.classList.add("running");
    }
  }
  page.classList.toggle("failing", desk.failing);
  showTitle();
}

function show(query, state) {
  shown = query;
  page.dataset.state = state;
  choices?.enable(query !== null); // the classes may still be on their way
  for (const button of others) button.setAttribute("aria-disabled", query ? "false" : "true");
  showGuess();
  if (!query) {
    const [heading, spoken] = STATES[state];
    setText(byId("heading"), heading);
    setText(byId("about"), "");
    setText(byId("spoken"), spoken);
    return;
  }
  const parts = [query.id ? `“${query.id}”` : "", `asked ${moment(query.asked_at)}`];
  if (query.second) parts.push("a second opinion, please");
  if (query.skips) parts.push(query.skips === 1 ? "skipped once" : `skipped ${query.skips} times`);
  setText(byId("heading"), `Round ${count(query.round)}`);
  setText(byId("about"), parts.filter(Boolean).join(" · "));
  showSample(byId("sample"), query, units);
  byId("sample").querySelector(".scroll")?.scrollTo(0, 0);
  if (mobile.matches) window.scrollTo(0, 0);
  const [first] = ranked(query, classes);
  const chance = first ? `, ${percent(first.share, 0)}` : "";
  const guess = guessing ? ` Guess: ${panel.guess.textContent}${chance}. ${doubt(query, classes)}.` : "";
  setText(byId("spoken"), `Round ${query.round}.${guess}`);
}

/** The guess of the model. It is hidden until somebody asks for it, because it biases people. */
function showGuess() {
  showDoubt(panel, guessing ? shown : null, classes);
  choices?.mark(guessing && shown ? shown.guess : null);
  byId("opinion").hidden = !guessing;
  reveal.setAttribute("aria-expanded", String(guessing));
  setText(byId("reveal-text"), guessing ? "Hide" : "Show");
}

function toggleGuess() {
  guessing = !guessing;
  kept.set("localStorage", "osamd-guess", guessing ? "shown" : "hidden");
  showGuess();
}

function showStatus(latest) {
  status = latest;
  const { left } = status.today;
  setText(byId("waiting"), compact(status.pending));
  setText(byId("left"), left === null ? "no limit" : compact(Math.max(0, left)));
  showTitle();
  desk.noticed(status);
  if (status.classes.length !== classes.length) learnClasses();
}

/** The current classes: one may have been added while the page was open. */
async function learnClasses() {
  const schema = await schemaOf();
  classes = schema.classes.map(({ name, title, about }) => ({ name, about, title: title || String(name) }));
  choices = new Choices(classes, answer);
  choices.enable(shown !== null);
  prepareGuidelines(schema, classes);
  showGuess();
  return schema;
}

function showTitle() {
  const waiting = status?.pending ?? 0;
  const name = `Label · ${byId("task").textContent || "osamd"}`;
  document.title = waiting ? `(${compact(waiting)}) ${name}` : name;
}

function answer(i) {
  if (!shown || i < 0 || i >= classes.length) return;
  choices.given(i);
  desk.answer(classes[i].name, classes[i].title);
}

const KEYS = {
  u: () => desk.undo(),
  s: () => shown && desk.skip(),
  d: () => shown && desk.end("unsure"),
  n: () => shown && desk.end("none"),
  g: () => toggleGuess(),
  h: () => showHistory(classes, desk.holder),
  "/": () => choices.seek(),
};

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target instanceof Element && event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (isOpen()) return;
  const key = event.key.toLowerCase();
  const place = choices?.place(key) ?? -1;
  if (place >= 0) answer(place);
  else if (Object.hasOwn(KEYS, key) && choices) KEYS[key]();
  else return;
  event.preventDefault();
});

undo.addEventListener("click", () => desk.undo());
undo.style.setProperty("--undo", `${UNDO}ms`);
skip.addEventListener("click", KEYS.s);
byId("unsure").addEventListener("click", KEYS.d);
byId("none").addEventListener("click", KEYS.n);
reveal.addEventListener("click", toggleGuess);
byId("look-back").addEventListener("click", KEYS.h);
order.value = kept.get("localStorage", "osamd-order") === "valuable" ? "valuable" : "oldest";
order.addEventListener("change", () => {
  kept.set("localStorage", "osamd-order", order.value);
  order.blur(); // so that the keys answer again
});

const schema = await learnClasses().catch((refused) => {
  setText(byId("note"), refused.message);
  throw refused;
});
units = new Map((schema.columns ?? []).map(({ name, unit }) => [name, unit]));
guessing = (kept.get("localStorage", "osamd-guess") ?? (schema.show_guess ? "shown" : "hidden")) === "shown";
showGuess();
setText(byId("left"), UNKNOWN);
await desk.start();
listen({
  status: showStatus,
  connection: showConnection,
  query: () => desk.arrived(),
  label: ({ round }) => desk.gone(round, "was answered by somebody else"),
  expire: ({ round }) => desk.gone(round, "expired"),
  none: ({ round }) => desk.gone(round, "was answered by somebody else"),
});
