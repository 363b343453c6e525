/** uPlot charts: the reward curve with its spread and evaluations, and one small chart per step metric. */

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { colour, json, onTheme, onWidth } from "./dom.js";

const FONT = '500 10.5px "Inter", sans-serif';
const faded = (value, share) => `color-mix(in srgb, ${value} ${share}%, transparent)`;

export function axes(integer) {
  const common = { stroke: colour("ink-3"), font: FONT, grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  const whole = integer ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] } : {};
  return [{ ...common, ...whole, size: 26, grid: { show: false } }, { ...common, size: 50, space: 26, values: (u, ticks) => ticks.map(plain) }];
}

/** A tick as it is: rounding made two ticks read the same. */
const plain = (tick) => String(+tick.toPrecision(6)).replace("-", "−");

/** The newest value that is known: what a legend says while nobody points at the chart. */
const newest = (column) => column.findLastIndex((value) => value !== null && value !== undefined);

/** Redraws `make(width)` at every change of width or theme. Returns a function that redraws now. */
export function keep(element, make) {
  let plot = null;
  const draw = () => {
    if (!element.clientWidth) return;
    plot?.destroy();
    plot = make(element.clientWidth);
  };
  onWidth(element, draw);
  onTheme(draw);
  return draw;
}

export function mountReward(element) {
  let data = json("reward-data");
  const draw = keep(element, (width) => {
    const known = data.train.length || data.heldout.length;
    const note = document.getElementById("reward-empty");
    if (note) note.hidden = Boolean(known);
    return known ? rewardPlot(element, width, data) : null;
  });
  return {
    set(fresh) {
      data = fresh;
      draw();
    },
  };
}

function rewardPlot(element, width, data) {
  const steps = [...new Set([...data.train.map((r) => r[0]), ...data.heldout.map((r) => r[0])])].sort((a, b) => a - b);
  const column = (rows, index) => {
    const known = new Map(rows.map((row) => [row[0], row[index]]));
    return steps.map((step) => known.get(step) ?? null);
  };
  const [train, heldout] = [colour("rollout"), colour("ok")];
  const at = (u, line, i) => i ?? newest(u.data[line]);
  const value = (u, v, line, i) => u.data[line][at(u, line, i)]?.toFixed(3) ?? "–";
  const spread = (u, v, line, i) => {
    const [mean, low, high] = [1, 2, 3].map((k) => u.data[k][at(u, 1, i)]);
    return mean === null || mean === undefined ? "–" : `${mean.toFixed(3)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
  };
  const options = {
    width,
    height: 210,
    padding: [10, 10, 0, 0],
    cursor: { y: false, points: { size: 7 } },
    scales: { x: { time: false, range: (u, low, high) => [Math.min(0, low), Math.max(high, 1)] }, y: { range: (u, low, high) => [Math.max(0, Math.floor(low * 10) / 10), Math.min(1, Math.ceil(high * 10) / 10 || 1)] } },
    axes: axes(true),
    bands: [{ series: [3, 2], fill: faded(train, 16) }],
    series: [
      { label: "step", value: (u, v) => v ?? "newest" },
      { label: "training", stroke: train, width: 2, spanGaps: true, value: spread, points: { show: data.train.length < 3 } },
      { label: "low", stroke: "transparent", spanGaps: true, points: { show: false }, value },
      { label: "high", stroke: "transparent", spanGaps: true, points: { show: false }, value },
      { label: "held-out", stroke: heldout, width: 1.6, dash: [5, 4], spanGaps: true, value, points: { show: true, size: 7, fill: colour("panel"), stroke: heldout, width: 1.8 } },
    ],
  };
  return new uPlot(options, [steps, column(data.train, 1), column(data.train, 2), column(data.train, 3), column(data.heldout, 1)], element);
}

export function mountSeries(elements) {
  const all = json("series-data") ?? {};
  for (const element of elements) {
    const points = all[element.dataset.series];
    if (!points) continue;
    keep(element, (width) =>
      new uPlot(
        {
          width,
          height: 120,
          padding: [8, 8, 0, 0],
          legend: { show: false },
          cursor: { y: false },
          scales: { x: { time: false } },
          axes: axes(true),
          series: [{}, { stroke: colour("accent"), width: 1.8, points: { show: points.length < 20, size: 5 } }],
        },
        [points.map((p) => p[0]), points.map((p) => p[1])],
        element,
      ),
    );
  }
}
