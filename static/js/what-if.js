/** The chart of a what-if: hours per step over a swept setting, with the interval over seeds as a band. */

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { colour, duration, json } from "./dom.js";
import { axes, keep } from "./series.js";

const TONES = ["accent", "training", "ok", "switching", "bad", "partial", "ink-2", "nowork"];
const faded = (value, share) => `color-mix(in srgb, ${value} ${share}%, transparent)`;
const took = (hours) => (hours === null || hours === undefined ? "–" : duration(hours * 3600));

export function mount(element) {
  if (element.dataset.drawn) return;
  const data = json(element.dataset.whatIfChart);
  if (!data) return;
  element.dataset.drawn = "yes";
  keep(element, (width) => plot(element, width, data));
}

function plot(element, width, data) {
  const xs = [...new Set(data.lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  const columns = [xs];
  const series = [{ label: data.axis, value: (u, v) => v ?? "" }];
  const bands = [];
  data.lines.forEach((line, i) => {
    const known = new Map(line.points.map((point) => [point[0], point]));
    const column = (index) => xs.map((x) => known.get(x)?.[index] ?? null);
    const tone = colour(TONES[i % TONES.length]);
    const hidden = { stroke: "transparent", spanGaps: true, points: { show: false }, value: () => "", class: "edge" };
    series.push({ label: line.label, stroke: tone, width: 2, dash: i ? [6, 2 + 2 * i] : undefined, spanGaps: true, value: (u, v, _, at) => said(u, i, at), points: { show: true, size: 6 } });
    columns.push(column(1));
    series.push({ ...hidden, label: "low" }, { ...hidden, label: "high" });
    columns.push(column(2), column(3));
    bands.push({ series: [3 * i + 3, 3 * i + 2], fill: faded(tone, 14) });
  });
  const [across, up] = axes(false);
  const span = Math.max(xs.at(-1) - xs[0], 1e-9);
  const options = {
    width,
    height: 230,
    padding: [12, 14, 0, 0],
    cursor: { y: false, points: { size: 8 } },
    scales: { x: { time: false, range: () => [Math.min(xs[0], data.now) - 0.05 * span, Math.max(xs.at(-1), data.now) + 0.05 * span] } },
    axes: [{ ...across, splits: () => xs, values: (u, values) => values.map((v) => `${v}`) }, { ...up, size: 64, values: (u, values) => values.map(took) }],
    bands,
    series,
    hooks: { drawClear: [(u) => present(u, data.now)] },
  };
  return new uPlot(options, columns, element);
}

function said(u, line, at) {
  const [mean, low, high] = [1, 2, 3].map((k) => u.data[3 * line + k]?.[at]);
  return mean === null || mean === undefined ? "" : `${took(mean)} (${took(low)} to ${took(high)})`;
}

/** A dashed line where the present value lies. */
function present(u, now) {
  const x = u.valToPos(now, "x", true);
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = colour("ink-3");
  ctx.setLineDash([4, 4]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}
