// The dashboard: live numbers, and charts over all rounds.

import { call, listen } from "./api.js";
import { Chart } from "./chart.js";
import { byId, compact, count, number, percent, setText, UNKNOWN } from "./dom.js";
import { schemaOf, showConnection } from "./frame.js";
import { quantile, span } from "./scale.js";

const POINTS = 300;
const LABELS_NEEDED = 20; // with fewer labels, the service gives no accuracy
const REFRESH = 2_000; // least ms between two requests for the history
const STACKED = 7; // the most classes that are stacked; with more, the most common ones get lines
const LINES = 6; // the number of those lines
const GROUPS = 60; // points of the class mix, at most
const clip = (share) => (Number.isFinite(share) ? Math.min(1, Math.max(0, share)) : share); // estimates may pass 1
const most = (values, least) => Math.max(least, ...values.filter(Number.isFinite));
const share = (value, tick) => percent(value, tick ? 0 : 1);
const fine = (value, tick) => percent(value, tick && Math.round(1000 * value) % 10 === 0 ? 0 : 1);

const charts = byId("charts");
const accuracy = new Chart(charts, {
  title: "Accuracy",
  about: "Share of correct decisions, estimated from the labels, with its interval.",
  y: "correct decisions",
  format: fine,
  wide: true,
});
const spending = new Chart(charts, {
  title: "Labels asked for",
  about: "Labels asked for per round, and the budget.",
  y: "of rounds",
  format: fine,
});
const mix = { root: charts, chart: null, stacked: null };
showMix(true);
const margin = new Chart(charts, {
  title: "Margin",
  about: "Mean margin of the decision: how sure the model is.",
  y: "mean margin",
  format: number,
});
const quarrel = new Chart(charts, {
  title: "Teacher and student disagree",
  about: "Share of rounds in which decision and pseudolabel differ.",
  y: "of rounds",
  format: fine,
});
const answers = new Chart(charts, {
  title: "Answers",
  about: "Questions asked so far, and what became of them.",
  y: "questions",
  format: compact,
});
const waiting = new Chart(charts, {
  title: "Waiting",
  about: "Questions waiting for an answer.",
  y: "questions",
  format: compact,
});

let titles = new Map(); // the titles of the classes

async function learnTitles() {
  const { classes } = await schemaOf();
  titles = new Map(classes.map(({ name, title }) => [String(name), title || String(name)]));
}

let now = null; // the latest status

// ---- tiles

function showStatus(status) {
  const { accuracy: all, recent, budget, health, today } = status;
  tile("rounds", status.rounds < 1e8 ? count(status.rounds) : compact(status.rounds), `${compact(today.rounds)} today`);
  byId("rounds").title = count(status.rounds);
  const known = Number.isFinite(all.value);
  const lately = Number.isFinite(recent.value) ? `lately ${percent(clip(recent.value))} (${between(recent)})` : "";
  const from = known ? `${between(all)}, from ${compact(all.labels)} labels` : `too few labels: ${all.labels} of ${LABELS_NEEDED} needed`;
  tile("accuracy", percent(clip(all.value)), from);
  setText(byId("accuracy-recent"), lately);
  byId("accuracy-about").title = `A ${percent(all.level, 0)} confidence interval.`;
  const limit = budget.rate === null ? "no budget set" : `budget ${percent(budget.rate)}`;
  const since = budget.since ? ` since round ${compact(budget.since)}` : "";
  tile("asked", percent(budget.spent), `${limit}${since} · ${compact(status.asked)} asked`);
  const rest = ["held", "told", "expired"].map((name) => `${compact(status[name])} ${name}`);
  tile("pending", compact(status.pending), rest.join(" · "));
  setText(byId("agreement"), agreement(status.second_opinions));
  const alike = status.method === "osamd-preset"; // its decision is also the pseudolabel
  quarrel.figure.hidden = alike;
  waiting.figure.classList.toggle("wide", alike); // avoids a gap when only five charts follow the first
  showHealth(health, status);
  document.title = `${health.state === "alarm" ? "Alarm" : "Dashboard"} · ${byId("task").textContent || "osamd"}`;
  now = status;
  if (status.rounds !== drawn.rounds || status.told !== drawn.told) refresh();
}

/** The interval of an estimate, in words. */
function between({ low, high }) {
  return `${percent(clip(low), 0).replace(/\s*%$/, "")} to ${percent(clip(high), 0)}`;
}

function tile(id, text, about) {
  setText(byId(id), text);
  setText(byId(`${id}-about`), about);
}

const WORDS = { fine: "Fine", unknown: "Unknown", alarm: "Alarm" };

function showHealth({ state, why, remedy }, { rounds, wild }) {
  const before = now?.health.state === "alarm"; // only changes are spoken
  const alarm = state === "alarm";
  if (alarm !== before) setText(byId("spoken"), alarm ? `Alarm. ${why}` : "The alarm is over.");
  byId("health-tile").classList.toggle("alarm", alarm);
  byId("health-tile").classList.toggle("unknown", state === "unknown");
  setText(byId("health"), rounds === 0 ? UNKNOWN : WORDS[state]);
  const parts = [why, remedy];
  if (wild.count) parts.push(`${count(wild.count)} samples with extreme values were refused: ${wild.last}`);
  setText(byId("health-about"), parts.filter(Boolean).join(" "));
}

function agreement({ share: agreed, low, high, number: samples }) {
  if (!samples) return "";
  return `Two people agree on ${percent(agreed, 0)} (${between({ low, high })}) of ${count(samples)}.`;
}

// ---- charts

const drawn = { rounds: -1, told: -1, at: -Infinity, timer: 0 };

/** Fetches the history and draws it, at most once per REFRESH ms. */
function refresh() {
  if (drawn.timer) return;
  const wait = Math.max(0, drawn.at + REFRESH - performance.now());
  drawn.timer = setTimeout(async () => {
    const { rounds, told } = now;
    const history = await call("GET", `/v1/history?points=${POINTS}`).catch(() => null);
    Object.assign(drawn, { at: performance.now(), timer: 0 });
    if (!history) return; // the next status tries again
    Object.assign(drawn, { rounds, told });
    if (history.classes.length > titles.size) await learnTitles(); // one was added
    draw({ points: upToNow(history.points), classes: history.classes });
  }, wait);
}

/** The points, and one more from the status if there were rounds since the last one. */
function upToNow(points) {
  const { rounds, asked, told, expired, pending, accuracy: all, recent, health } = now;
  if (rounds <= (points.at(-1)?.round ?? 0)) return points;
  const lately = { recent: recent.value, recent_low: recent.low, recent_high: recent.high };
  const estimate = { accuracy: all.value, low: all.low, high: all.high, ...lately };
  const { margin: mean, disagreement } = health;
  const counts = { asked, told, expired, pending };
  return [...points, { round: rounds, at: Date.now() / 1000, ...estimate, ...counts, margin: mean, disagreement }];
}

function draw({ points, classes }) {
  const rate = now?.budget.rate ?? null;
  const column = (name) => points.map((point) => point[name] ?? NaN);
  const x = { rounds: column("round"), at: column("at") };
  const [value, recent, low, high] = ["accuracy", "recent", "low", "high"].map((name) => column(name).map(clip));
  const band = low.map((bound, i) => (Number.isFinite(value[i]) ? bound : NaN)); // [0, 1] before any label
  const roof = high.map((bound, i) => (Number.isFinite(value[i]) ? bound : NaN));
  const near = (name) => column(name).map((bound, i) => (Number.isFinite(recent[i]) ? clip(bound) : NaN));
  const steady = [...value, ...recent, quantile(band, 0.15), quantile(roof, 0.85)]; // the first bands cover everything
  accuracy.show({
    ...x,
    series: [
      { name: "all rounds", values: value, low: band, high: roof, slot: 0 },
      { name: "recent rounds", values: recent, low: near("recent_low"), high: near("recent_high"), slot: 1 },
    ],
    range: span(steady, [0, 1]),
    empty: points.length ? (now?.told ? "Too few labels yet" : "No labels yet") : undefined,
  });
  const asked = column("asked");
  const [all, lately] = rates(x.rounds, asked);
  const budget = rate === null ? [] : [{ name: "budget", values: [], fixed: rate, slot: 7 }];
  const spent = [
    { name: "all rounds", values: all, slot: 0 },
    { name: "recent rounds", values: lately, slot: 1 },
    ...budget,
  ];
  const top = Math.max(quantile([...all, ...lately], 0.97) || 0, 1.3 * (rate ?? 0), 0.01);
  spending.show({ ...x, series: spent, range: [0, Math.min(1, 1.1 * top)] });
  drawMix(points, classes);
  const only = (name, values, range) => ({ ...x, series: [{ name, values, slot: 0 }], range });
  const parted = column("disagreement");
  margin.show(only("mean margin", column("margin")));
  quarrel.show(only("disagreement", parted, [0, Math.min(1, 1.15 * most(parted, 0.01))]));
  const told = ["asked", "told", "expired"].map((name, i) => ({ name, values: column(name), slot: [0, 2, 1][i] }));
  answers.show({ ...x, series: told, range: [0, 1.06 * most(asked, 4)] });
  waiting.show(only("waiting", column("pending"), [0, 1.15 * most(column("pending"), 4)]));
}

/** Labels asked for per round: over all rounds so far, and over the last twentieth of the points. */
function rates(rounds, asked) {
  const lag = Math.max(1, Math.round(rounds.length / 20));
  const all = rounds.map((round, i) => (round ? asked[i] / round : NaN));
  // The last stretch has only begun; as a few rounds say little, it reaches one point further back.
  const begun = (i) => rounds[i] - rounds[i - lag] < (rounds[i - lag] - rounds[i - 2 * lag]) / 2;
  const before = (i) => i - lag - (begun(i) ? 1 : 0);
  const lately = rounds.map((round, i) =>
    i < lag ? NaN : (asked[i] - asked[before(i)]) / (round - rounds[before(i)]),
  );
  return [all, lately];
}

function showMix(stacked) {
  if (mix.stacked === stacked) return;
  const about = stacked ? "Share of each class in the decisions." : "Share of the most common classes in the decisions.";
  const made = new Chart(mix.root, { title: "Class mix", about, y: "of decisions", format: share, stacked });
  if (mix.chart) mix.chart.figure.replaceWith(made.figure);
  Object.assign(mix, { chart: made, stacked });
}

/** Joins neighbouring points into at most GROUPS, because the shares of a few rounds say little. */
function joined(points) {
  const size = Math.ceil(points.length / GROUPS);
  const starts = points.map((_, i) => i).filter((i) => i % size === 0);
  const groups = starts.map((start) => points.slice(start, start + size));
  let before = 0;
  return groups.map((group) => {
    const sums = [];
    let rounds = 0;
    for (const { round, decided } of group) {
      rounds += round - before;
      decided.forEach((part, k) => (sums[k] = (sums[k] ?? 0) + part * (round - before)));
      before = round;
    }
    return { round: before, at: group.at(-1).at, decided: sums.map((sum) => sum / rounds) };
  });
}

function drawMix(all, classes) {
  const points = joined(all.filter(({ decided }) => decided?.length));
  const x = { rounds: points.map(({ round }) => round), at: points.map(({ at }) => at) };
  const named = (name) => titles.get(String(name)) ?? String(name);
  const shares = (k) => points.map(({ decided }) => decided[k] ?? 0); // 0 before a class was added
  let series = classes.map((name, k) => ({ name: named(name), values: shares(k), slot: k }));
  const stacked = classes.length <= STACKED;
  if (!stacked) {
    const weight = ({ values }) => values.reduce((sum, value) => sum + (value || 0), 0);
    const commonest = series.sort((a, b) => weight(b) - weight(a)).slice(0, LINES);
    series = commonest.map((one, slot) => ({ ...one, slot }));
  }
  showMix(stacked);
  const top = most(series.flatMap(({ values }) => values), 0.02);
  const empty = now?.rounds ? "Too few rounds yet" : undefined;
  mix.chart.show({ ...x, series, range: stacked ? [0, 1] : [0, Math.min(1, 1.1 * top)], empty });
}

const nothing = { points: [], classes: [] };
draw(nothing);
await learnTitles();
listen({ status: showStatus, connection: showConnection });
