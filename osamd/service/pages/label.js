// The label page: one sample at a time, answered by a key, a button or a thumb.

import { listen } from "./api.js";
import { Desk, UNDO } from "./desk.js";
import { byId, compact, count, el, kept, moment, percent, setText, UNKNOWN } from "./dom.js";
import { schemaOf, showConnection } from "./frame.js";
import { doubt, ranked, showDoubt, showSample } from "./sample.js";

const RESERVED = "us"; // undo and skip
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"].filter((letter) => !RESERVED.includes(letter));
const KEYS = [..."123456789", ...LETTERS]; // of the first class, the second, ...

const STATES = {
  loading: ["Loading", ""],
  lost: ["Cannot go on just now", ""], // the note says why
  empty: ["Nothing to answer", "Nothing waits for an answer."],
};

const page = byId("page");
const panel = { guess: byId("guess"), margin: byId("margin"), words: byId("words"), bars: byId("bars") };
const order = byId("order");
const undo = byId("undo");
const skip = byId("skip");
const mobile = matchMedia("(max-width: 760px)");

let classes = [];
let units = new Map();
let choices = [];
let keys = []; // of each class
let status = null;
let shown = null; // the query that stands on the page

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
      void undo.offsetWidth; // starts the shrinking bar anew
      undo.classList.add("running");
    }
  }
  page.classList.toggle("failing", desk.failing);
  showTitle();
}

function show(query, state) {
  shown = query;
  page.dataset.state = state;
  const cannot = query ? "false" : "true";
  for (const button of [...choices, skip]) button.setAttribute("aria-disabled", cannot);
  showDoubt(panel, query, classes);
  choices.forEach((button, i) => {
    const guessed = query !== null && classes[i].name === query.guess;
    button.classList.toggle("guessed", guessed);
    button.querySelector(".mark").hidden = !guessed;
  });
  const guessed = byId("choices").querySelector(".guessed");
  if (guessed) byId("choices").scrollTop = guessed.offsetTop - byId("choices").clientHeight / 2 + guessed.offsetHeight / 2;
  if (!query) {
    const [heading, spoken] = STATES[state];
    setText(byId("heading"), heading);
    setText(byId("about"), "");
    setText(byId("spoken"), spoken);
    return;
  }
  const parts = [query.id ? `“${query.id}”` : "", `asked ${moment(query.asked_at)}`];
  if (query.skips) parts.push(query.skips === 1 ? "skipped once" : `skipped ${query.skips} times`);
  setText(byId("heading"), `Round ${count(query.round)}`);
  setText(byId("about"), parts.filter(Boolean).join(" · "));
  showSample(byId("sample"), query, units);
  byId("sample").querySelector(".scroll")?.scrollTo(0, 0);
  if (mobile.matches) window.scrollTo(0, 0);
  const [first] = ranked(query, classes);
  const chance = first ? `, ${percent(first.share, 0)}` : "";
  setText(byId("spoken"), `Round ${query.round}. Guess: ${panel.guess.textContent}${chance}. ${doubt(query, classes)}.`);
}

function showStatus(latest) {
  status = latest;
  const { left } = status.today;
  setText(byId("waiting"), compact(status.pending));
  setText(byId("left"), left === null ? "no limit" : compact(Math.max(0, left)));
  showTitle();
  desk.noticed(status);
}

function showTitle() {
  const waiting = status?.pending ?? 0;
  document.title = waiting ? `(${compact(waiting)}) Label · osamd` : "Label · osamd";
}

function showChoices() {
  choices = classes.map(({ title }, i) => {
    const key = keys[i];
    const mark = el("span", { class: "mark", hidden: true }, "guess");
    const button = el(
      "button",
      { type: "button", class: "choice", title, "aria-disabled": "true", "aria-keyshortcuts": key ?? null },
      key ? el("kbd", { "aria-hidden": "true" }, key.toUpperCase()) : null,
      el("bdi", { class: "name" }, title),
      mark,
    );
    button.addEventListener("click", () => answer(i));
    return button;
  });
  byId("choices").replaceChildren(...choices);
  const longest = Math.max(...classes.map(({ title }) => title.length));
  byId("choices").dataset.size = longest <= 4 ? "short" : classes.length > 6 ? "many" : "few";
  setText(byId("keys"), spans(keys));
}

/** The keys of the classes: their names where each is one letter or digit of its own, or else 1, 2, ..., 9, A, B, ... */
function keysOf(titles) {
  const own = titles.map((title) => title.toLowerCase());
  const fit = own.every((key) => /^[0-9a-z]$/.test(key) && !RESERVED.includes(key));
  return fit && new Set(own).size === own.length ? own : KEYS.slice(0, titles.length);
}

/** "1 to 9, A to F" */
function spans(list) {
  const digits = list.filter((key) => key <= "9").sort();
  const letters = list.filter((key) => key > "9").map((key) => key.toUpperCase()).sort();
  const groups = [digits, letters].filter((some) => some.length);
  const span = (some) => (some.length < 3 ? some.join(" and ") : `${some[0]} to ${some.at(-1)}`);
  return groups.map(span).join(", ");
}

function answer(i) {
  if (!shown || i < 0 || i >= classes.length) return;
  const button = choices[i];
  button.classList.remove("given");
  void button.offsetWidth;
  button.classList.add("given");
  desk.answer(classes[i].name, classes[i].title);
}

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target instanceof Element && event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const key = event.key.toLowerCase();
  if (key === "u") desk.undo();
  else if (key === "s") skipShown();
  else if (keys.includes(key)) answer(keys.indexOf(key));
  else return;
  event.preventDefault();
});

function skipShown() {
  if (shown) desk.skip();
}

undo.addEventListener("click", () => desk.undo());
undo.style.setProperty("--undo", `${UNDO}ms`);
skip.addEventListener("click", skipShown);
order.value = kept.get("localStorage", "osamd-order") === "valuable" ? "valuable" : "oldest";
order.addEventListener("change", () => {
  kept.set("localStorage", "osamd-order", order.value);
  order.blur(); // the keys are for answering again
});

const schema = await schemaOf().catch((refused) => {
  setText(byId("note"), refused.message);
  throw refused;
});
classes = schema.classes.map(({ name, title }) => ({ name, title: title || String(name) }));
units = new Map((schema.columns ?? []).map(({ name, unit }) => [name, unit]));
keys = keysOf(classes.map(({ title }) => title));
showChoices();
setText(byId("left"), UNKNOWN);
await desk.start();
listen({
  status: showStatus,
  connection: showConnection,
  query: () => desk.arrived(),
  label: ({ round }) => desk.gone(round, "was answered by somebody else"),
  expire: ({ round }) => desk.gone(round, "expired"),
});
