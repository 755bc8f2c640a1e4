// The classes to choose from: buttons with keys, and a box to find one among many.

import { byId, el, setText } from "./dom.js";

export const RESERVED = "usdngh"; // undo, skip, don't know, none of these, guess, history
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"].filter((letter) => !RESERVED.includes(letter));
const KEYS = [..."123456789", ...LETTERS]; // of the first class, the second, ...
const SEARCHED = 10; // the number of classes from which on a search box is shown

export class Choices {
  #root = byId("choices");
  #box = byId("seek");

  /** Calls `answer(i)` with the index of the chosen class. */
  constructor(classes, answer) {
    this.classes = classes;
    this.keys = keysOf(classes.map(({ title }) => title));
    this.buttons = classes.map((one, i) => this.#button(one, this.keys[i], () => answer(i)));
    this.#root.replaceChildren(...this.buttons);
    const longest = Math.max(...classes.map(({ title }) => title.length));
    this.#root.dataset.size = longest <= 4 ? "short" : classes.length > 6 ? "many" : "few";
    setText(byId("keys"), spans(this.keys));
    this.#box.hidden = classes.length < SEARCHED;
    byId("finds").hidden = this.#box.hidden;
    this.#box.placeholder = `Find in ${classes.length} classes`;
    this.#box.oninput = () => this.#seek(); // replaces the handler for the former classes
    this.#box.onkeydown = (event) => this.#picked(event, answer);
  }

  /** Whether there is a query to answer. */
  enable(can) {
    for (const button of this.buttons) button.setAttribute("aria-disabled", can ? "false" : "true");
  }

  /** Marks the class that the model guesses; null marks none. */
  mark(guess) {
    this.buttons.forEach((button, i) => {
      const guessed = guess !== null && this.classes[i].name === guess;
      button.classList.toggle("guessed", guessed);
      button.querySelector(".mark").hidden = !guessed;
    });
    const guessed = this.#root.querySelector(".guessed");
    const middle = (this.#root.clientHeight - (guessed?.offsetHeight ?? 0)) / 2;
    this.#root.scrollTop = guessed ? guessed.offsetTop - middle : 0;
  }

  /** The index of the class of a key, or -1. */
  place(key) {
    return this.keys.indexOf(key);
  }

  seek() {
    if (this.#box.hidden) return;
    this.#box.focus();
    this.#box.select();
  }

  /** Shows that a class was chosen, and then all classes again. */
  given(i) {
    const button = this.buttons[i];
    button.classList.remove("given");
    void button.offsetWidth; // restarts the flash
    button.classList.add("given");
    this.#clear();
  }

  #button({ title, about }, key, chosen) {
    const hint = about ? `${title}: ${about}` : title;
    const button = el(
      "button",
      { type: "button", class: "choice", title: hint, "aria-disabled": "true", "aria-keyshortcuts": key ?? null },
      key ? el("kbd", { "aria-hidden": "true" }, key.toUpperCase()) : null,
      el("bdi", { class: "name" }, title),
      el("span", { class: "mark", hidden: true }, "guess"),
    );
    button.addEventListener("click", chosen);
    return button;
  }

  #matches() {
    const text = this.#box.value.trim().toLowerCase();
    return this.classes.map(({ title }) => title.toLowerCase().includes(text));
  }

  #seek() {
    this.#matches().forEach((fits, i) => (this.buttons[i].hidden = !fits));
  }

  #picked(event, answer) {
    if (event.key === "Enter") {
      const first = this.#matches().indexOf(true);
      if (first >= 0 && this.#box.value.trim()) answer(first);
    } else if (event.key === "Escape") this.#clear();
    else return;
    event.preventDefault();
    this.#box.blur();
  }

  #clear() {
    if (!this.#box.value) return;
    this.#box.value = "";
    this.#seek();
  }
}

/** The keys of the classes: their names if these are distinct letters or digits, otherwise 1, 2, ..., 9, A, B, ... */
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
