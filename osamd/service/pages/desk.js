// The desk of one tab: the samples it has claimed, the answer that can still be taken back, and the answers being sent.
//
// An answer is staged first. It is sent when the next one is given, after UNDO ms, or when the page is hidden. From then on
// the service has it, and sending it twice does no harm ("repeated").

import { call } from "./api.js";
import { count, kept, within } from "./dom.js";

export const UNDO = 5_000; // ms in which an answer can be taken back
const AHEAD = 2; // samples claimed: the one shown and the next
const LEASE = 60; // s; a closed tab gives its samples back after this time
const RENEW = 20_000; // ms; three times within a lease
const RETRY = 5_000; // ms after a claim that failed
const QUIET = 2_000; // ms without a claim after one that returned nothing
const COPY = 100; // ms for another tab to say that it has the same name
const ENDED = { skip: " skipped", unsure: ": you don’t know, so others are asked", none: ": no class fits" };
const BACK_OFF = [1, 2, 4, 8, 15, 30]; // s before an answer is sent again

export class Desk {
  queue = []; // the first one is shown
  staged = null; // {round, label, title, query}
  outbox = []; // [{round, label, title}], the first one is being sent
  ready = false; // whether the service has answered once
  failing = false; // whether the last call failed

  #skipping = new Set();
  #claiming = false;
  #again = false;
  #emptyAt = -Infinity;
  #later = 0;
  #sending = false;
  #timer = 0;
  #wake = () => {};

  /** Calls `changed()` whenever the page must be redrawn, and `say(text)` to tell the person something. */
  constructor({ changed, say, order }) {
    Object.assign(this, { changed, say, order });
    this.holder = kept.get("sessionStorage", "osamd-holder") ?? this.#newHolder();
    this.outbox = JSON.parse(kept.get("sessionStorage", "osamd-outbox") ?? "[]");
    this.answered = Number(kept.get("sessionStorage", "osamd-answered") ?? 0);
    this.#beTheOnlyOne();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.flush() : this.refill()));
    window.addEventListener("pagehide", () => this.flush());
    window.addEventListener("online", () => this.#wake());
    setInterval(() => document.hidden || this.refill(), RENEW);
  }

  /** Whether more samples may come in a moment. */
  get busy() {
    return this.#claiming || this.#skipping.size > 0;
  }

  async start() {
    if (this.outbox.length) await this.#nap(COPY); // by then a duplicated tab knows that these are not its own
    await this.#drain(1); // what the previous page sent while closing may not have arrived
    await this.refill();
  }

  /** Answers the sample that is shown, and sends the answer before it. */
  answer(label, title) {
    const query = this.queue.shift();
    if (!query) return;
    this.#seal();
    this.staged = { round: query.round, label, title, query };
    this.answered += 1;
    this.#timer = setTimeout(() => this.commit(), UNDO);
    this.#save();
    this.say(`Round ${count(query.round)}: ${within(title)}. Press U to take it back.`);
    this.refill();
    this.#drain();
    this.changed();
  }

  /** Takes the staged answer back and shows its sample again. */
  undo() {
    if (!this.staged) {
      this.say(this.answered ? "The last answer has been sent and can no longer be taken back." : "There is no answer to take back.");
      return;
    }
    clearTimeout(this.#timer);
    this.queue.unshift(this.staged.query);
    this.say(`Taken back: round ${count(this.staged.round)} is here again.`);
    this.staged = null;
    this.answered -= 1;
    this.#save();
    this.changed();
  }

  /** Moves the sample that is shown behind all others. */
  skip() {
    return this.end("skip");
  }

  /** Ends the sample that is shown without a class: "skip", "unsure" or "none". */
  async end(how) {
    const query = this.queue.shift();
    if (!query) return;
    const { round } = query;
    this.#skipping.add(round);
    this.say(`Round ${count(round)}${ENDED[how]}.`);
    this.#save();
    this.changed();
    try {
      await call("POST", `/v1/queries/${round}/${how}`, { holder: this.holder });
    } catch (refused) {
      this.say(`${refused.message} Round ${count(round)} is unchanged.`);
    }
    this.#skipping.delete(round);
    await this.refill();
    if (how === "skip" && this.queue[0]?.round === round) this.say("Skipped, but no other question is waiting: here it is again.");
  }

  /** Moves the staged answer to the outbox. */
  commit() {
    this.#seal();
    this.#save();
    this.#drain();
    this.changed();
  }

  #seal() {
    clearTimeout(this.#timer);
    if (!this.staged) return;
    const { round, label, title } = this.staged;
    this.outbox.push({ round, label, title });
    this.staged = null;
  }

  /** Sends everything at once, since the page may be gone in a moment. */
  flush() {
    const waiting = this.#sending ? this.outbox.slice() : [];
    this.commit();
    if (waiting.length) for (const answer of this.outbox) this.#post(answer).catch(() => {}); // in addition to the running attempts
  }

  /** Removes a round that somebody else answered, or that expired. */
  gone(round, how) {
    const shown = this.queue[0]?.round === round;
    const rest = this.queue.filter((query) => query.round !== round);
    if (rest.length === this.queue.length) return;
    this.queue = rest;
    if (shown) this.say(`Round ${count(round)} ${how}${rest.length ? "; here is the next one" : ""}.`);
    this.#save();
    this.refill();
    this.changed();
  }

  /** Called for each new query. */
  arrived() {
    if (this.queue.length < AHEAD) this.refill();
  }

  /** Called with each status: claims more if queries are waiting that nobody holds. */
  noticed({ pending, held }) {
    if (this.queue.length >= AHEAD || pending <= held) return;
    this.#refillIn(Math.max(0, this.#emptyAt + QUIET - performance.now()));
  }

  #refillIn(milliseconds) {
    clearTimeout(this.#later);
    this.#later = setTimeout(() => this.refill(), milliseconds);
  }

  /** Claims up to AHEAD samples, and renews the claims on those that are here. It waits while a skip is on its way, since
      the service could give the skipped sample back to this tab. */
  async refill() {
    this.#again = true;
    if (this.#claiming || this.#skipping.size) return;
    this.#claiming = true;
    while (this.#again && !this.#skipping.size) {
      this.#again = false;
      const before = this.queue.slice();
      const unsettled = this.#unsettled();
      const limit = Math.max(AHEAD, before.length) + unsettled.size; // own claims come first, including those being sent
      try {
        const claim = { holder: this.holder, order: this.order(), limit, lease: LEASE };
        const { queries } = await call("POST", "/v1/queries/claim", claim);
        this.#merge(queries, before, unsettled);
        this.failing = false;
      } catch (refused) {
        this.failing = true;
        this.say(refused.passing ? `${refused.message} The page tries again by itself.` : refused.message);
        this.#refillIn(RETRY);
      }
    }
    this.#claiming = false;
    this.ready = true;
    this.changed();
  }

  #merge(claimed, before, unsettled) {
    const rounds = new Set(claimed.map((query) => query.round));
    const lost = before.filter((query) => !rounds.has(query.round));
    const shown = this.queue[0];
    this.queue = this.queue.filter((query) => !lost.includes(query));
    const busy = new Set([...unsettled, ...this.#unsettled(), ...this.queue.map((query) => query.round)]);
    const fresh = claimed.filter((query) => !busy.has(query.round));
    this.queue.push(...fresh);
    if (!this.ready) {
      const last = Number(kept.get("sessionStorage", "osamd-shown")); // a reload shows the same sample
      this.queue.sort((a, b) => (b.round === last) - (a.round === last));
    }
    if (shown && lost.includes(shown)) this.say(`Round ${count(shown.round)} was given back because it was open here for too long.`);
    if (!fresh.length) this.#emptyAt = performance.now();
    this.#save();
  }

  /** Rounds that are answered or skipped here, though the service may not know it yet. */
  #unsettled() {
    const staged = this.staged ? [this.staged.round] : [];
    return new Set([...staged, ...this.outbox.map((answer) => answer.round), ...this.#skipping]);
  }

  #post({ round, label }) {
    return call("POST", "/v1/labels", { round, label, holder: this.holder }, { keepalive: true });
  }

  /** Sends the outbox in order, and retries until the service has it (or `tries` times). */
  async #drain(tries = Infinity) {
    if (this.#sending) return;
    this.#sending = true;
    for (let failures = 0; this.outbox.length; ) {
      const answer = this.outbox[0];
      try {
        await this.#post(answer);
        if (failures) this.say("The connection is back, and your answers have been sent.");
      } catch (refused) {
        if (refused.passing) {
          const wait = BACK_OFF[Math.min(failures++, BACK_OFF.length - 1)];
          this.failing = true;
          this.say(`${refused.message} Your answer is kept and will be sent again in ${wait} s.`);
          this.changed();
          if (failures >= tries) {
            setTimeout(() => this.#drain(), 1000 * wait);
            break;
          }
          await this.#nap(1000 * wait);
          continue;
        }
        this.answered -= 1;
        this.say(refusal(refused, answer));
      }
      failures = 0;
      this.failing = false;
      this.outbox.shift();
      this.#save();
      this.changed();
    }
    this.#sending = false;
  }

  #nap(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #save() {
    const leaving = this.staged ? [...this.outbox, this.staged] : this.outbox;
    const plain = leaving.map(({ round, label, title }) => ({ round, label, title }));
    kept.set("sessionStorage", "osamd-outbox", JSON.stringify(plain));
    kept.set("sessionStorage", "osamd-answered", String(this.answered));
    if (this.queue.length) kept.set("sessionStorage", "osamd-shown", String(this.queue[0].round));
  }

  #newHolder() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    const holder = `tab-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    kept.set("sessionStorage", "osamd-holder", holder);
    return holder;
  }

  /** A duplicated tab has the storage of the first one, and must not use its name. */
  #beTheOnlyOne() {
    const others = new BroadcastChannel("osamd-holders");
    others.onmessage = ({ data }) => {
      if (data.holder !== this.holder) return;
      if (data.taken) {
        this.holder = this.#newHolder();
        Object.assign(this, { queue: [], outbox: [], answered: 0 });
        this.refill();
      } else others.postMessage({ holder: this.holder, taken: true });
    };
    others.postMessage({ holder: this.holder, taken: false });
  }
}

function refusal({ code, message }, { round, title }) {
  if (code === "answered") return `Round ${count(round)} was already answered by somebody else; “${within(title)}” was not used.`;
  if (code === "expired") return `Round ${count(round)} had expired; “${within(title)}” came too late and was not used.`;
  if (code === "held") return `Round ${count(round)} was given to somebody else; “${within(title)}” was not used.`;
  return `Round ${count(round)}: “${within(title)}” was not used. ${message}`;
}
