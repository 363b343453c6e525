/** Pure functions over the run chart's data: room, waterlevel and roles at an instant; merging what the live feed adds. */

/** Number of cells in rollout over time, as [time, count] steps. */
export function rolloutSteps(lanes, until) {
  const changes = new Map();
  const add = (at, by) => changes.set(at, (changes.get(at) ?? 0) + by);
  for (const lane of lanes) {
    for (const [start, end, role] of lane.spans) {
      if (role !== "rollout") continue;
      add(start, 1);
      if (end !== null && end < until) add(end, -1);
    }
  }
  let count = 0;
  return [...changes].sort((a, b) => a[0] - b[0]).map(([at, by]) => [at, (count += by)]);
}

/** The last entry of a time-sorted list at or before `at`, or null. */
export function lastBefore(points, at) {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  return low ? points[low - 1] : null;
}

export function roleAt(lane, at) {
  const span = lane.spans.find(([start, end]) => start <= at && (end === null || end > at));
  return span ? span[2] : "";
}

/** Put `added` (what the live feed sent) into `data`: spans and steps replace those with their start. */
export function merge(data, added) {
  data.until = added.until;
  data.live = added.live;
  data.evaluations = added.evaluations;
  data.water = data.water.filter(([at]) => at < added.water[0][0]).concat(added.water);
  data.steps = unique(data.steps.concat(added.steps), (step) => step[1]);
  data.decisions = unique(data.decisions.concat(added.decisions), (decision) => decision[1]);
  data.lanes = added.lanes.map((lane) => {
    const old = data.lanes.find((one) => one.index === lane.index)?.spans ?? [];
    const first = lane.spans[0]?.[0];
    const kept = first === undefined ? old : old.filter(([start]) => start < first);
    return { ...lane, spans: kept.map((span) => ended(span, first)).concat(lane.spans) };
  });
  return data;
}

/** A span that was open ends where the next one begins: its own end was not sent if it lies before the message. */
function ended(span, next) {
  const [start, end, role, phases] = span;
  return end === null && next !== undefined ? [start, next, role, phases] : span;
}

function unique(rows, key) {
  return [...new Map(rows.map((row) => [key(row), row])).values()].sort((a, b) => a[0] - b[0]);
}
