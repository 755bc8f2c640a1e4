// Elements and text. Names of classes and features are untrusted: they only ever become text nodes and attributes.

export const byId = (id) => document.getElementById(id);

/** An element with attributes (null and false leave one out) and children: nodes, or text. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Sets a text only if it differs, so that live regions and selections are not disturbed. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The text, cut to at most `most` letters. */
export function short(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** A name within a sentence: not too long, and isolated so that it cannot change the text direction. */
export const within = (name) => `\u2068${short(name, 40)}\u2069`;

/** An address of this stream, whose root may lie below the root of the service. */
export const here = (path) => new URL(`.${path}`, location.href).pathname;

const stream = here("/");

/** A value that the browser keeps for this stream; storage may be switched off. */
export const kept = {
  get(storage, key) {
    try {
      return window[storage].getItem(key + stream);
    } catch {
      return null;
    }
  },
  set(storage, key, value) {
    try {
      if (value === null) window[storage].removeItem(key + stream);
      else window[storage].setItem(key + stream, value);
    } catch {
      // then the value lasts as long as the page
    }
  },
};

const LANGUAGE = "en-GB";
const whole = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 0 });
const brief = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const four = new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 4 });
const clock = new Intl.DateTimeFormat(LANGUAGE, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(LANGUAGE, { day: "numeric", month: "short" });

const known = (value) => typeof value === "number" && Number.isFinite(value);
export const UNKNOWN = "–";

/** 12,345; the short form is 5.02M from a million on. */
export const count = (value) => (known(value) ? whole.format(value) : UNKNOWN);
export const compact = (value) => (known(value) ? (Math.abs(value) < 1e5 ? whole : brief).format(value) : UNKNOWN);

/** A share in per cent, such as 91.2 %. */
export const percent = (value, decimals = 1) => (known(value) ? `${(100 * value).toFixed(decimals)} %` : UNKNOWN);

/** A number as people read it: four digits, and powers of ten where it is very large or very small. */
export function number(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-4 || size >= 1e7) ? value.toExponential(3) : four.format(value);
}

/** A moment in seconds since 1970 as text: only the time if it is today, else the day, too. */
export function moment(seconds) {
  if (!known(seconds)) return "";
  const at = new Date(1000 * seconds);
  return at.toDateString() === new Date().toDateString() ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}
