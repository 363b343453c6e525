/** Calls of an execution: a lane per conversation (the last one for all beyond MAX_LANES), held time hatched, long gaps folded. */

import { duration, html, json, onWidth, svg } from "./dom.js";
import { hatch } from "./water.js";

const LANE = 18;
const BAR = 12;
const GAP_SHARE = 0.12; // a silence longer than this share of the whole is folded
const MAX_LANES = 14;
const CLEAR = 26; // room that the sign of a fold keeps on the axis

export function mount(element) {
  const data = json("timeline-data");
  if (!data?.calls.length) return;
  onWidth(element, (width) => draw(element, data.calls, width));
}

function draw(element, calls, width) {
  const names = [...new Set(calls.map((call) => call[1]))];
  const shown = names.length > MAX_LANES ? names.slice(0, MAX_LANES - 1) : names;
  const others = names.length - shown.length;
  const rows = shown.length + (others ? 1 : 0);
  const left = width < 560 ? 96 : 132;
  const scale = folded(calls, left, width - 12);
  const height = rows * LANE + 24;
  const letters = Math.floor((left - 8) / 6.8);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
  root.append(hatch("tl-hatch", "tl-hatch"));
  for (const [x, seconds] of scale.folds) root.append(svg("line", { class: "tl-gap", x1: x, x2: x, y1: 0, y2: height - 18 }), svg("text", { x, y: height - 6, "text-anchor": "middle" }, "⋯", svg("title", {}, `${duration(seconds)} without a call`)));
  shown.forEach((name, row) => {
    const first = calls.find((call) => call[1] === name);
    const label = name && !name.startsWith(first[2]) ? `${first[2]} ${name}` : name || first[2];
    root.append(svg("text", { x: left - 8, y: row * LANE + 12, "text-anchor": "end" }, squeezed(label, letters), svg("title", {}, label)));
  });
  if (others) root.append(svg("text", { x: left - 8, y: shown.length * LANE + 12, "text-anchor": "end" }, `${others} others`));
  for (const call of calls) {
    const row = shown.indexOf(call[1]);
    root.append(bar(call, row < 0 ? shown.length : row, scale));
  }
  for (const [x, seconds] of scale.ticks) root.append(svg("text", { x, y: height - 6, "text-anchor": "middle" }, seconds ? duration(seconds) : "0 s"));
  element.replaceChildren(root, key(calls));
}

/** The two ends of a long name: they tell conversations apart. */
function squeezed(text, letters) {
  const kept = letters - 1;
  return text.length > letters ? `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(-Math.floor(kept / 2))}` : text;
}

function bar([number, , role, start, took, held, state, cell], row, scale) {
  const x = scale.x(start);
  const wide = Math.max(scale.x(start + took) - x - 0.8, 2);
  const y = row * LANE + 2;
  const broken = state === "complete" ? "" : " tl-broken";
  const group = svg("g", { class: "tl-call", "data-call": number });
  group.append(svg("rect", { class: `tl-${role}${broken}`, x, y, width: wide, height: BAR, rx: 2 }));
  if (held > 0) group.append(svg("rect", { class: "tl-held", x, y, width: Math.max(Math.min((wide * held) / took, wide), 1), height: BAR }));
  const where = cell === null ? "" : `, cell ${cell}`;
  group.append(svg("title", {}, `call ${number}, ${role}: ${duration(took)}${held > 0 ? `, ${duration(held)} held` : ""}${where}${broken ? `, ${state}` : ""}`));
  group.addEventListener("click", () => document.querySelector(`#tree a[href^="?call=${number}"]`)?.click());
  return group;
}

/** What the colours of the bars mean, as far as they occur. */
function key(calls) {
  const roles = [...new Set(calls.map((call) => call[2]))];
  const swatch = (role) => svg("svg", { width: 10, height: 10, "aria-hidden": "true" }, svg("rect", { class: `tl-${role}`, width: 10, height: 10, rx: 2 }));
  return html("div", "legend", ...roles.map((role) => html("span", "", swatch(role), role)));
}

/** Time to x with silences folded: the busy stretches share the width that folds leave. */
function folded(calls, left, right) {
  const spans = calls.map((call) => [call[3], call[3] + Math.max(call[4], 0.001)]).sort((a, b) => a[0] - b[0]);
  const end = Math.max(...spans.map((span) => span[1]));
  const busy = [[spans[0][0], spans[0][1]]];
  for (const [from, to] of spans) {
    if (from - busy.at(-1)[1] > end * GAP_SHARE) busy.push([from, to]);
    else busy.at(-1)[1] = Math.max(busy.at(-1)[1], to);
  }
  const fold = 26;
  const total = busy.reduce((sum, [from, to]) => sum + to - from, 0);
  const room = right - left - fold * (busy.length - 1);
  const x = (t) => {
    let at = left;
    for (const [from, to] of busy) {
      if (t <= to) return at + (Math.max(t - from, 0) / total) * room;
      at += ((to - from) / total) * room + fold;
    }
    return right;
  };
  const folds = busy.slice(0, -1).map(([, to], i) => [x(to) + fold / 2, busy[i + 1][0] - to]);
  const every = niceStep(total / Math.min(6, Math.max(2, room / 64)));
  const ticks = [];
  for (const [from, to] of busy) for (let t = Math.ceil(from / every) * every; t <= to; t += every) if (!folds.some(([at]) => Math.abs(at - x(t)) < CLEAR)) ticks.push([x(t), Math.round(t * 10) / 10]);
  return { x, folds, ticks };
}

function niceStep(want) {
  return [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200].find((step) => step >= want) ?? 14400;
}
