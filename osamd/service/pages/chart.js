// A chart over rounds: lines, a band, or stacked shares. Its legend shows the values at the pointer or keyboard position.

import { compact, count, el, moment, setText, short, svg } from "./dom.js";
import { apart, nearest, runs, scale, span, ticks } from "./scale.js";

const LEFT = 64;
const TOP = 12;
const BOTTOM = 40;
const HEIGHT = 230;
const LABELLED = 520; // px of width from which on lines are labelled at their ends
const ROWS = 12; // rows of the table for screen readers
let made = 0;

/**
 * `title`, `y` (what the axis shows) and `format` (a number as text) are given once. `show` gets
 * {rounds, at, series, range, empty}; series: [{name, values, slot, low, high, fixed}], slot: colour and dashes,
 * low and high: a band, fixed: a horizontal line. `stacked`: values are shares that are drawn on top of each other.
 */
export class Chart {
  #data = { rounds: [], at: [], series: [] };
  #at = null; // the selected point; null: the last one

  constructor(root, { title, about, y, format, stacked = false, wide = false }) {
    Object.assign(this, { title, y, format, stacked });
    const id = `chart-${++made}`;
    this.legend = el("ul", { class: "legend" });
    this.when = el("p", { class: "when" });
    this.paper = svg("svg", { "aria-hidden": "true", height: HEIGHT });
    this.plot = el("div", { class: "plot", tabindex: 0, role: "slider", "aria-labelledby": id }, this.paper);
    this.table = el("div", { class: "hidden" });
    this.figure = el(
      "figure",
      { class: wide ? "card wide" : "card" },
      el("figcaption", {}, el("h2", { id }, title), el("p", {}, about)),
      el("div", { class: "reading" }, this.when, this.legend),
      this.plot,
      this.table,
    );
    root.append(this.figure);
    this.plot.addEventListener("pointermove", (event) => this.#point(event));
    this.plot.addEventListener("pointerdown", (event) => this.#point(event));
    this.plot.addEventListener("pointerleave", () => this.#read(null));
    this.plot.addEventListener("blur", () => this.#read(null));
    this.plot.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.#draw()).observe(this.plot);
  }

  show(data) {
    const round = this.#at === null ? null : this.#data.rounds[this.#at];
    this.#at = round === null || !data.rounds.length ? null : nearest(data.rounds, round); // the selection stays
    this.#data = data;
    this.#legend();
    this.#draw();
    this.#tabulate();
  }

  // ---- drawing

  #draw() {
    const { rounds, series, empty } = this.#data;
    const width = Math.floor(this.plot.clientWidth);
    if (!width) return;
    this.paper.setAttribute("width", width);
    this.paper.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const lines = series.filter((one) => one.fixed !== undefined || one.values.some(Number.isFinite));
    const right = width - (width >= LABELLED && lines.length > 1 ? 118 : 16);
    const first = rounds.length > 1 ? rounds[0] : 0;
    const last = rounds.length ? Math.max(rounds.at(-1), first + 1) : 1;
    this.x = scale([first, last], [LEFT, right]);
    const range = this.#range();
    const y = scale(range, [HEIGHT - BOTTOM, TOP]);
    const parts = [...this.#axes(width, right, [first, last], range, y)];
    if (!rounds.length || !lines.length) {
      const at = { x: (LEFT + right) / 2, y: (HEIGHT - BOTTOM + TOP) / 2, "text-anchor": "middle", class: "none" };
      parts.push(svg("text", at, empty ?? (rounds.length ? "Not known yet" : "No rounds yet")));
    } else if (this.stacked) parts.push(...this.#stack(y));
    else parts.push(...lines.flatMap((one) => this.#line(one, y, right)));
    if (width >= LABELLED && rounds.length && lines.length > 1) parts.push(...this.#ends(lines, y, right));
    this.cursor = svg("g", { class: "cursor" });
    this.paper.replaceChildren(...parts, this.cursor);
    this.y_of = y;
    this.#read(this.#at);
  }

  #range() {
    if (this.stacked) return [0, 1];
    const { series, range } = this.#data;
    return range ?? span(series.flatMap((one) => (one.fixed === undefined ? one.values : [one.fixed])));
  }

  #axes(width, right, [first, last], range, y) {
    const floor = HEIGHT - BOTTOM;
    const rows = ticks(...range, 4).flatMap((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(value), y2: y(value) }),
      svg("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, this.format(value, true)),
    ]);
    const columns = ticks(first, last, Math.max(2, Math.floor((right - LEFT) / 64))).flatMap((value) =>
      Number.isInteger(value)
        ? [
            svg("line", { class: "tick", x1: this.x(value), x2: this.x(value), y1: floor, y2: floor + 5 }),
            svg("text", { x: this.x(value), y: floor + 18, "text-anchor": "middle" }, compact(value)),
          ]
        : [],
    );
    return [
      ...rows,
      ...columns,
      svg("line", { class: "axis", x1: LEFT, x2: right, y1: floor, y2: floor }),
      svg("text", { x: (LEFT + right) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, "round"),
      svg("text", { transform: `translate(13 ${(floor + TOP) / 2}) rotate(-90)`, "text-anchor": "middle" }, this.y),
    ];
  }

  #line({ values, slot, low, high, fixed }, y, right) {
    const { rounds } = this.#data;
    if (fixed !== undefined) {
      return [svg("line", { class: `line s${slot}`, x1: LEFT, x2: right, y1: y(fixed), y2: y(fixed) })];
    }
    const place = (list, i) => `${this.x(rounds[i]).toFixed(1)} ${y(list[i]).toFixed(1)}`;
    const parts = [];
    for (const run of low ? runs(low.map((value, i) => value + high[i])) : []) {
      const back = run.toReversed().map((i) => place(low, i));
      parts.push(svg("path", { class: `band s${slot}`, d: `M${[...run.map((i) => place(high, i)), ...back].join("L")}Z` }));
    }
    for (const run of runs(values)) {
      if (run.length === 1) {
        parts.push(svg("circle", { class: `dot s${slot}`, r: 3, cx: this.x(rounds[run[0]]), cy: y(values[run[0]]) }));
      } else parts.push(svg("path", { class: `line s${slot}`, d: `M${run.map((i) => place(values, i)).join("L")}` }));
    }
    return parts;
  }

  /** Stacks the shares, the first one at the bottom. A point stands for the rounds since the point before it. */
  #stack(y) {
    const { rounds, series } = this.#data;
    const known = rounds.map((_, i) => i).filter((i) => series.every(({ values }) => Number.isFinite(values[i])));
    const corners = known.flatMap((i, k) => {
      const from = k ? rounds[known[k - 1]] : Math.min(rounds[0], this.#start());
      return [from, rounds[i]].map((round) => [round, i]);
    });
    const below = rounds.map(() => 0);
    return series.map(({ values, slot }) => {
      const floor = corners.map(([round, i]) => `${this.x(round).toFixed(1)} ${y(below[i]).toFixed(1)}`);
      for (const i of known) below[i] += values[i];
      const roof = corners.map(([round, i]) => `${this.x(round).toFixed(1)} ${y(below[i]).toFixed(1)}`);
      return svg("path", { class: `area s${slot}`, d: `M${[...roof, ...floor.reverse()].join("L")}Z` });
    });
  }

  #start() {
    return this.#data.rounds.length > 1 ? this.#data.rounds[0] : 0;
  }

  /** Names at the ends of the lines. */
  #ends(lines, y, right) {
    let below = 0;
    const ends = lines.map(({ name, values, slot, fixed }) => {
      const value = fixed ?? values.findLast(Number.isFinite);
      below += this.stacked ? value : 0;
      return { name, slot, height: y(this.stacked ? below - value / 2 : value) };
    });
    const wanted = ends.map(({ height }) => height);
    const heights = apart(wanted, 14, TOP + 4, HEIGHT - BOTTOM - 2);
    return ends.flatMap(({ name, slot }, i) => [
      svg("text", { class: `end s${slot}`, x: right + 8, y: heights[i] + 4 }, svg("title", {}, name), short(name, 15)),
    ]);
  }

  // ---- reading

  #legend() {
    const { series } = this.#data;
    this.values = series.map(({ low }) => el("span", { class: low ? "value spread" : "value" }));
    const items = series.map(({ name, slot }, i) => {
      const kind = this.stacked ? svg("rect", { class: `area s${slot}`, width: 14, height: 10, rx: 2 }) : null;
      const stroke = kind ?? svg("line", { class: `line s${slot}`, x1: 0, x2: 24, y1: 5, y2: 5 });
      const swatch = svg("svg", { width: this.stacked ? 14 : 24, height: 10, "aria-hidden": "true" }, stroke);
      return el("li", {}, swatch, el("bdi", { title: name }, short(name, 28)), this.values[i]);
    });
    this.legend.replaceChildren(...items);
  }

  #point(event) {
    const { rounds } = this.#data;
    if (!rounds.length) return;
    const at = event.clientX - this.plot.getBoundingClientRect().left;
    this.#read(nearest(rounds.map(this.x), at));
  }

  #key(event) {
    const last = this.#data.rounds.length - 1;
    if (last < 0) return;
    const at = this.#at ?? last;
    const leap = Math.max(1, Math.round(last / 10));
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -leap, PageUp: leap };
    const ends = { Home: 0, End: last, Escape: null };
    if (event.key in steps) this.#read(Math.min(last, Math.max(0, at + steps[event.key])));
    else if (event.key in ends) this.#read(ends[event.key]);
    else return;
    event.preventDefault();
  }

  /** Selects one point: in the legend, with a line and dots in the plot, and for screen readers. */
  #read(at) {
    const { rounds, at: times, series } = this.#data;
    this.#at = at;
    const i = at ?? rounds.length - 1;
    const value = (one) => (one.fixed === undefined ? one.values[i] : one.fixed);
    const texts = series.map((one) => (rounds.length || one.fixed !== undefined ? this.#text(one, i) : ""));
    texts.forEach((text, k) => setText(this.values[k], text));
    const time = moment(times[i]);
    setText(this.when, rounds.length ? `Round ${count(rounds[i])}${time ? `, ${time}` : ""}` : "");
    const spoken = series.map(({ name }, k) => `${name} ${texts[k]}`).join(", ");
    const slider = { valuemin: 0, valuemax: Math.max(0, rounds.length - 1), valuenow: Math.max(0, i) };
    for (const [name, number] of Object.entries(slider)) this.plot.setAttribute(`aria-${name}`, number);
    this.plot.setAttribute("aria-valuetext", rounds.length ? `${this.when.textContent}: ${spoken}` : "No rounds yet");
    if (!this.cursor) return;
    this.cursor.replaceChildren();
    if (at === null || !rounds.length) return;
    const x = this.x(rounds[i]);
    this.cursor.append(svg("line", { x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    for (const one of this.stacked ? [] : series) {
      if (Number.isFinite(value(one))) {
        this.cursor.append(svg("circle", { class: `dot s${one.slot}`, r: 4, cx: x, cy: this.y_of(value(one)) }));
      }
    }
  }

  #text({ values, low, high, fixed }, i) {
    const text = this.format(fixed ?? values[i]);
    return low && Number.isFinite(low[i]) ? `${text} (${this.format(low[i])} to ${this.format(high[i])})` : text;
  }

  /** Some of the points as a table for screen readers. */
  #tabulate() {
    const { rounds, series } = this.#data;
    const number = Math.min(ROWS, rounds.length);
    const apart = (rounds.length - 1) / Math.max(1, number - 1);
    const picked = Array.from({ length: number }, (_, k) => Math.round(k * apart));
    const names = ["Round", ...series.map(({ name }) => name)];
    const head = el("tr", {}, ...names.map((text) => el("th", { scope: "col" }, text)));
    const body = picked.map((i) =>
      el("tr", {}, el("th", { scope: "row" }, count(rounds[i])), ...series.map((one) => el("td", {}, this.#text(one, i)))),
    );
    const caption = el("caption", {}, `${this.title}: ${picked.length} of ${rounds.length} points`);
    this.table.replaceChildren(el("table", {}, caption, el("thead", {}, head), el("tbody", {}, ...body)));
  }
}

