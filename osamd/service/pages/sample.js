// One sample, and how sure the model is about it, as people see them.

import { zoom } from "./dialogs.js";
import { byId, el, number, percent, setText, within } from "./dom.js";

const BARS = 5; // the most likely classes that get a bar; the others share a line
const FEW = 13; // with fewer features, one column is enough
const LONG = 60; // letters from which on a value is shown as text, below its name
const MANY = 24; // features from which on a search box is shown

/** Shows a query in `root`: first what was sent for people, then the image or the values that the model gets. */
export function showSample(root, query, units) {
  const parts = query.display ? display(query.display, query.round, units) : [];
  const forPeople = parts.length > 0;
  if (query.image && !query.display?.image) parts.push(picture(query.image));
  if (query.features) parts.push(forPeople ? folded(query.features, units) : table(query.features, units));
  root.replaceChildren(...parts);
  root.classList.toggle("display", forPeople);
}

function display({ text, fields, image, audio, link }, round, units) {
  const parts = [];
  if (image) parts.push(photo(image, `The image of round ${round}`));
  if (text) parts.push(el("div", { class: "text", tabindex: 0 }, el("bdi", {}, text)));
  if (audio) parts.push(el("audio", { controls: true, src: audio, preload: "metadata" }));
  if (link) parts.push(el("p", { class: "link" }, el("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, link)));
  if (fields) parts.push(table(fields, units));
  return parts;
}

function photo(source, words) {
  const image = el("img", { src: source, alt: words });
  const button = el("button", { type: "button", class: "photo", title: "Show it at full size" }, image);
  button.addEventListener("click", () => zoom(source, words));
  return button;
}

/** The values, collapsed, because people judge what was sent for them. */
function folded(features, units) {
  return el("details", { class: "values" }, el("summary", {}, `${features.length} values`), table(features, units));
}

function picture({ height, width, channels, pixels }) {
  const canvas = el("canvas", { width, height, role: "img", "aria-label": `Image of ${width} by ${height} pixels` });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let k = 0; k < 3; k++) {
      image.data[4 * i + k] = 255 * (pixels[channels * i + (channels >= 3 ? k : 0)] ?? 0);
    }
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  canvas.style.setProperty("--shape", `${width} / ${height}`);
  canvas.style.setProperty("--wide", width / height);
  return el("div", { class: "picture" }, canvas);
}

// The roles repeat those of the elements, because some browsers drop them when the layout has columns.
function table(features, units) {
  const rows = features.map(({ name, value, unit, used }) => {
    const shown = valueText(value);
    const exact = typeof value === "number" ? String(value) : null;
    const cell = el("td", { role: "cell", title: exact, class: exact && "number" }, el("bdi", {}, shown));
    const of = unit || units.get(name);
    if (of && value !== null) cell.append(" ", el("span", { class: "unit" }, of));
    if (value === null) cell.classList.add("missing");
    if (typeof value === "string" && value.length > LONG) cell.classList.add("long-text");
    if (used === false) cell.title = "The model does not see this.";
    if (value === 0 || value === false) cell.classList.add("zero");
    return el("tr", { role: "row", class: cell.classList.contains("long-text") ? "wide-row" : null }, el("th", { role: "rowheader", scope: "row", title: name }, el("bdi", {}, name)), cell);
  });
  const head = el(
    "thead",
    { class: "hidden" },
    el("tr", { role: "row" }, el("th", { role: "columnheader" }, "Feature"), el("th", { role: "columnheader" }, "Value")),
  );
  const body = el("tbody", { role: "rowgroup" }, ...rows);
  prepareFinder(features, rows);
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": `${features.length} features` },
    el("table", { role: "table", class: features.length < FEW ? "features few" : "features" }, head, body),
  );
}

/** The search box for features; its text stays from sample to sample. */
function prepareFinder(features, rows) {
  const box = byId("find");
  box.hidden = features.length < MANY;
  box.placeholder = `Find in ${features.length}`;
  box.oninput = () => {
    const text = box.hidden ? "" : box.value.trim().toLowerCase();
    rows.forEach((row, i) => {
      row.hidden = !features[i].name.toLowerCase().includes(text);
    });
  };
  if (box.value) box.oninput();
}

function valueText(value) {
  if (value === null || value === undefined) return "missing";
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value);
}

/** The probability of each class, the most likely first; names may be numbers, but keys are always text. */
export function ranked(query, classes) {
  const keyed = new Map(Object.entries(query.probabilities ?? {}));
  const numeric = new Map([...keyed].map(([key, share]) => [Number(key), share]));
  const shareOf = (name) => keyed.get(String(name)) ?? numeric.get(name) ?? NaN;
  const all = classes.map(({ name, title }) => ({ title, share: shareOf(name) }));
  return all.filter(({ share }) => Number.isFinite(share)).sort((a, b) => b.share - a.share);
}

/** How sure the model is, in words, by the lead of the most likely class over the next. */
export function doubt(query, classes) {
  const [first, second] = ranked(query, classes);
  if (!first || !second) return "";
  const lead = first.share - second.share;
  const close = `${within(first.title)} and ${within(second.title)}`;
  if (lead < 0.05) return `Cannot tell ${close} apart`;
  if (lead < 0.2) return `Torn between ${close}`;
  if (lead < 0.5) return "Leaning towards this";
  if (lead < 0.85) return "Fairly sure";
  return "Sure, but asks to check itself";
}

/** Shows guess, words and bars in the panel; the number of bars is fixed, so that nothing jumps. */
export function showDoubt({ guess, margin, words, bars }, query, classes) {
  const named = classes.find(({ name }) => name === query?.guess);
  setText(guess, query ? (named?.title ?? String(query.guess)) : "–");
  setText(margin, Number.isFinite(query?.margin) ? `margin ${number(query.margin)}` : "");
  setText(words, query ? doubt(query, classes) : "");
  const order = query ? ranked(query, classes) : [];
  const shown = order.slice(0, BARS);
  const rest = order.slice(BARS).reduce((sum, { share }) => sum + share, 0);
  const others = order.length - BARS;
  if (others > 0) shown.push({ title: others === 1 ? "1 other" : `${others} others`, share: rest, others: true });
  const rows = Math.min(classes.length, BARS + 1);
  bars.replaceChildren(...Array.from({ length: rows }, (_, i) => bar(shown[i])));
}

function bar(one) {
  if (!one) return el("li", { "aria-hidden": "true" });
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * Math.min(1, Math.max(0, one.share))}%`;
  return el(
    "li",
    { class: one.others ? "others" : null },
    el("bdi", { class: "name", title: one.title }, one.title),
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    el("span", { class: "share" }, percent(one.share, 0)),
  );
}
