// The arithmetic of charts: round ticks, and positions in the plot.

/** About `most` round numbers from low to high: steps of 1, 2 or 5 times a power of ten. */
export function ticks(low, high, most) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((factor) => factor * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Maps numbers to positions; numbers beyond the range are clipped. */
export function scale([low, high], [from, to]) {
  const width = high - low || 1;
  return (value) => from + (to - from) * Math.min(1, Math.max(0, (value - low) / width));
}

/** The range of the numbers, slightly widened, within bounds; unknown numbers are ignored. */
export function span(values, [least, most] = [-Infinity, Infinity]) {
  const known = values.filter(Number.isFinite);
  if (!known.length) return [Number.isFinite(least) ? least : 0, Number.isFinite(most) ? most : 1];
  const low = known.reduce((a, b) => Math.min(a, b));
  const high = known.reduce((a, b) => Math.max(a, b));
  const air = high > low ? 0.06 * (high - low) : 0.05 * Math.abs(high) || 0.05;
  return [Math.max(least, low - air), Math.min(most, high + air)];
}

/** The quantile of the known values. */
export function quantile(values, share) {
  const known = values.filter(Number.isFinite).sort((a, b) => a - b);
  return known.length ? known[Math.round(share * (known.length - 1))] : NaN;
}

/** The index of the nearest of these increasing numbers. */
export function nearest(rising, value) {
  let best = 0;
  for (let i = 1; i < rising.length; i++) {
    if (Math.abs(rising[i] - value) <= Math.abs(rising[best] - value)) best = i;
  }
  return best;
}

/** The runs of consecutive known values, as lists of indices. */
export function runs(values) {
  const found = [];
  let run = null;
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) run = null;
    else if (run) run.push(i);
    else found.push((run = [i]));
  });
  return found;
}

/** Moves heights apart until neighbours are `room` apart, within low and high, in the same order. */
export function apart(heights, room, low, high) {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const placed = heights.slice();
  let floor = low;
  for (const i of order) {
    placed[i] = Math.max(placed[i], floor);
    floor = placed[i] + room;
  }
  let ceiling = high;
  for (const i of order.reverse()) {
    placed[i] = Math.min(placed[i], ceiling);
    ceiling = placed[i] - room;
  }
  return placed;
}
