/** The run chart: water under the staircase of room, a lane per cell below, one cursor through all of it. */

import { clock, duration, hours, html, json, onWidth, svg, thousands, zone } from "./dom.js";
import { lastBefore, merge, roleAt, rolloutSteps } from "./water-data.js";

const TOP = 16;
const STEP_ROW = 30;
const AXIS = 20;
const TICKS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

export function mount(element) {
  const data = json("water-data");
  if (!data) return null;
  const chart = new RunChart(element, data);
  onWidth(element, () => chart.draw());
  return chart;
}

class RunChart {
  constructor(element, data) {
    this.element = element;
    this.data = data;
    this.cursor = null;
    this.tip = html("div", "tip");
    this.tip.hidden = true;
    this.said = document.getElementById("water-said");
    element.append(this.tip);
    element.addEventListener("pointermove", (event) => this.point(event));
    element.addEventListener("pointerleave", () => this.setCursor(null));
    element.addEventListener("keydown", (event) => this.key(event));
  }

  /** What the live feed added. The reader's cursor stays where it is. */
  add(points) {
    merge(this.data, points);
    this.draw();
  }

  async reload() {
    const reply = await fetch(this.element.dataset.source + location.search, { headers: { Accept: "application/json" } });
    if (!reply.ok) return null;
    const fresh = await reply.json();
    this.data = fresh.water;
    this.draw();
    return fresh;
  }

  layout() {
    const { data } = this;
    const width = this.element.clientWidth;
    const narrow = width < 560;
    const lanes = data.lanes.length;
    const laneHeight = lanes > 24 ? 7 : lanes > 10 ? 11 : 16;
    const laneGap = lanes > 24 ? 2 : 4;
    const left = narrow ? 42 : 54;
    const right = 12;
    const bottom = TOP + (narrow ? 150 : 224);
    const lanesTop = bottom + STEP_ROW;
    const height = lanesTop + lanes * (laneHeight + laneGap) + AXIS;
    const span = Math.max(data.until - data.since, 1) * (data.live ? 1.03 : 1);
    const x = (at) => left + ((width - left - right) * (at - data.since)) / span;
    const most = Math.max(lanes * data.room_per_cell, ...data.water.map((point) => point[1]), 1);
    const y = (level) => bottom - ((bottom - TOP) * level) / (most * 1.04);
    return { width, height, left, right, bottom, lanesTop, laneHeight, laneGap, span, x, y, most, narrow };
  }

  draw() {
    if (!this.element.clientWidth) return;
    const at = (this.at = this.layout());
    const root = svg("svg", { viewBox: `0 0 ${at.width} ${at.height}`, height: at.height, "aria-hidden": "true" });
    root.append(hatch("hatch", "w-hatch"));
    this.drawGrid(root, at);
    this.drawWater(root, at);
    this.drawLanes(root, at);
    this.drawSteps(root, at);
    if (this.data.live) this.drawNow(root, at);
    this.pointer = svg("g");
    root.append(this.pointer);
    this.element.querySelector("svg")?.remove();
    this.element.prepend(root);
    this.setCursor(this.cursor);
  }

  drawGrid(root, at) {
    const { room_per_cell: room, lanes } = this.data;
    const every = room ? Math.ceil(Math.max(lanes.length, at.most / room) / 4) * room : Math.ceil(at.most / 4);
    for (let level = 0; level <= at.most * 1.02; level += every) {
      root.append(svg("line", { class: level ? "w-grid" : "w-axis", x1: at.left, x2: at.width - at.right, y1: at.y(level), y2: at.y(level) }));
      root.append(svg("text", { x: at.left - 8, y: at.y(level) + 3.5, "text-anchor": "end" }, thousands(level)));
    }
    const want = at.span / (at.narrow ? 3.5 : 7);
    const step = TICKS.find((tick) => tick >= want) ?? 86400 * Math.ceil(want / 86400);
    const shift = this.data.relative ? 0 : new Date(this.data.since * 1000).getTimezoneOffset() * 60;
    if (!this.data.relative) root.append(svg("text", { class: "w-zone", x: at.left - 8, y: at.height - 4, "text-anchor": "end" }, zone(this.data.since * 1000)));
    for (let t = Math.ceil((this.data.since - shift) / step) * step + shift; t <= this.data.since + at.span; t += step) {
      const text = { "text-anchor": at.x(t) > at.width - 24 ? "end" : at.x(t) < at.left + 24 ? "start" : "middle" };
      root.append(svg("line", { class: "w-grid", x1: at.x(t), x2: at.x(t), y1: TOP, y2: at.height - AXIS + 4 }));
      root.append(svg("text", { x: at.x(t), y: at.height - 4, ...text }, this.label(t, step < 60)));
    }
  }

  /** The time of day, or hours since the start of a simulated run. */
  label(seconds, exact) {
    return this.data.relative ? hours(seconds, exact) : clock(seconds, exact);
  }

  drawWater(root, at) {
    const { water, room_per_cell: room, lanes, until } = this.data;
    if (water.length) {
      // It holds until it changes: a straight line between two points would tell of levels that never were.
      const line = stairs(water, Math.max(until, water.at(-1)[0]), at, (level) => level);
      root.append(svg("path", { class: "w-fill", d: `${line}V${at.y(0)}H${Math.max(at.x(water[0][0]), at.left)}Z` }));
      root.append(svg("path", { class: "w-line", d: line }));
    }
    this.steps = rolloutSteps(lanes, until);
    root.append(svg("path", { class: "w-leave", d: stairs(this.steps, until, at, (count) => Math.max(count - 1, 0) * room) }));
    root.append(svg("path", { class: "w-room", d: stairs(this.steps, until, at, (count) => count * room) }));
  }

  /** One path per role. Rollout is a thin bar, training a full one: they differ without colour too. */
  drawLanes(root, at) {
    const { lanes, until } = this.data;
    const named = Math.ceil(lanes.length / 16);
    const paths = {};
    lanes.forEach((lane, row) => {
      const top = at.lanesTop + row * (at.laneHeight + at.laneGap);
      if (row % named === 0) root.append(svg("text", { x: at.left - 8, y: top + at.laneHeight / 2 + 3.5, "text-anchor": "end" }, lane.name));
      root.append(svg("rect", { class: "w-lane", x: at.left, y: top, width: Math.max(at.x(until) - at.left, 1), height: at.laneHeight, rx: 3 }));
      for (const [start, end, role] of lane.spans) {
        const from = Math.max(at.x(start), at.left);
        const to = Math.max(at.x(Math.min(end ?? until, until)), from + (role === "switching" ? 3 : 1));
        const inset = role === "rollout" ? at.laneHeight * 0.26 : 0;
        (paths[role] ??= []).push(`M${from.toFixed(1)},${(top + inset).toFixed(1)}H${to.toFixed(1)}V${(top + at.laneHeight - inset).toFixed(1)}H${from.toFixed(1)}Z`);
      }
    });
    for (const [role, parts] of Object.entries(paths)) root.append(svg("path", { class: `w-${role}`, d: parts.join("") }));
  }

  drawSteps(root, at) {
    const middle = at.bottom + STEP_ROW / 2 + 1;
    for (const [t, version] of this.data.steps) {
      const x = at.x(t);
      if (x < at.left) continue;
      const mark = svg("path", { class: "w-step", d: `M${x},${middle - 5}l5,5l-5,5l-5,-5z` });
      mark.append(svg("title", {}, `step ${version}`));
      root.append(mark);
    }
    for (const [t, version, mean] of this.data.evaluations) {
      const x = at.x(t);
      if (x < at.left) continue;
      const mark = svg("circle", { class: "w-eval", cx: x, cy: middle, r: 3.6 });
      mark.append(svg("title", {}, `evaluation of v${version}: ${mean.toFixed(3)}`));
      root.append(mark);
    }
  }

  drawNow(root, at) {
    const x = at.x(this.data.until);
    root.append(svg("line", { class: "w-now", x1: x, x2: x, y1: TOP - 4, y2: at.height - AXIS }));
    root.append(svg("text", { class: "w-now", x: Math.min(x, at.width - 14), y: TOP - 6, "text-anchor": "middle" }, "now"));
  }

  point(event) {
    const at = this.at;
    if (!at) return;
    const x = event.clientX - this.element.getBoundingClientRect().left;
    const seconds = this.data.since + ((x - at.left) / (at.width - at.left - at.right)) * at.span;
    this.setCursor(seconds >= this.data.since && seconds <= this.data.until ? seconds : null);
  }

  key(event) {
    const times = this.data.decisions.map((decision) => decision[0]);
    const from = this.cursor ?? this.data.until + 1;
    let to = null;
    if (event.key === "ArrowLeft" || event.key === "h") to = times.filter((t) => t < from - 0.001).at(-1);
    else if (event.key === "ArrowRight" || event.key === "l") to = times.find((t) => t > from + 0.001);
    else if (event.key === "Escape") return this.setCursor(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (to !== undefined && to !== null) {
      this.setCursor(to);
      this.said.textContent = this.tip.innerText;
    }
  }

  setCursor(seconds) {
    this.cursor = seconds;
    this.pointer?.replaceChildren();
    this.tip.hidden = seconds === null;
    if (seconds === null || !this.pointer) return;
    const { at, data } = this;
    const x = at.x(seconds);
    const level = lastBefore(data.water, seconds)?.[1] ?? 0;
    this.pointer.append(svg("line", { class: "w-cursor", x1: x, x2: x, y1: TOP - 2, y2: at.height - AXIS }));
    this.pointer.append(svg("circle", { class: "w-dot", cx: x, cy: at.y(level), r: 4 }));
    this.tip.replaceChildren(...this.describe(seconds, level));
    const width = this.tip.offsetWidth;
    const right = x + 14 + width > at.width;
    this.tip.style.left = `${Math.max(4, right ? x - 14 - width : x + 14)}px`;
    this.tip.style.top = `${TOP + 8}px`;
  }

  /** Time, level against room, the roles, and the decision nearest to the cursor with its reason. */
  describe(seconds, level) {
    const { data, at } = this;
    const cells = lastBefore(this.steps, seconds)?.[1] ?? 0;
    const roles = Object.entries(Object.groupBy(data.lanes, (lane) => roleAt(lane, seconds) || "away"));
    const rows = [
      html("div", "row", html("b", "num", this.label(seconds, true)), html("span", "q num", `W ${thousands(level)} of ${thousands(cells * data.room_per_cell)}`)),
      html("div", "q", roles.map(([role, list]) => `${list.length} ${role}`).join(" · ")),
    ];
    const near = this.nearest(seconds, (14 * at.span) / (at.width - at.left - at.right));
    if (near) rows.push(html("div", "", html("b", "", near[3])), html("div", "q", near[4]));
    const span = data.lanes.flatMap((lane) => lane.spans.map((one) => [lane.name, ...one])).find(([, start, end, role]) => role === "switching" && start <= seconds && (end ?? data.until) >= seconds);
    if (span?.[4]?.length) rows.push(html("div", "q", `${span[0]}: ${span[4].map(([name, s]) => `${name} ${duration(s)}`).join(", ")}`));
    return rows;
  }

  nearest(seconds, reach) {
    let best = null;
    for (const decision of this.data.decisions) {
      const away = Math.abs(decision[0] - seconds);
      if (away <= reach && (!best || away <= Math.abs(best[0] - seconds))) best = decision;
    }
    return best;
  }
}

function stairs(steps, until, at, level) {
  let path = "";
  let last = null;
  for (const [t, count] of steps) {
    const x = Math.max(at.x(t), at.left).toFixed(1);
    path += last === null ? `M${x},${at.y(level(count)).toFixed(1)}` : `H${x}V${at.y(level(count)).toFixed(1)}`;
    last = count;
  }
  return last === null ? "" : `${path}H${at.x(until).toFixed(1)}`;
}

export function hatch(id, className) {
  const pattern = svg("pattern", { id, width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(svg("line", { class: className, x1: 0, y1: 0, x2: 0, y2: 4 }));
  return svg("defs", {}, pattern);
}
