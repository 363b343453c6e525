/** Starts what the page holds. Every module looks for its own element and does nothing without it. */

import { clock, stamp, whole } from "./dom.js";
import * as keys from "./keys.js";
import * as live from "./live.js";
import * as scroll from "./scroll.js";
import * as series from "./series.js";
import * as timeline from "./timeline.js";
import * as tokens from "./tokens.js";
import * as water from "./water.js";
import * as whatIf from "./what-if.js";

const find = (selector, root = document) => root.querySelector(selector);

function start() {
  keys.mount();
  prepare(document);
  const chart = find("#water") && water.mount(find("#water"));
  const reward = find("#reward") && series.mountReward(find("#reward"));
  series.mountSeries(document.querySelectorAll("[data-series]"));
  if (find("#timeline")) timeline.mount(find("#timeline"));
  const head = find("[data-run][data-seq]");
  if (head) {
    const showsCount = ["executions", "decisions"].includes(head.dataset.page);
    window.gyre = { chart, reward, feed: live.mount(head, { water: chart, reward, showsCount, onSwap: prepare }) };
  }
  document.addEventListener("htmx:after:swap", () => prepare(document));
}

/** What new markup needs, on the page and after every swap. */
function prepare(root) {
  for (const time of root.querySelectorAll("time[data-clock], time[data-stamp]")) {
    time.textContent = "clock" in time.dataset ? clock(Date.parse(time.dateTime) / 1000) : stamp(time.dateTime);
    time.title = whole(time.dateTime);
  }
  for (const view of root.querySelectorAll("[data-tokens]")) tokens.mount(view);
  for (const drawing of root.querySelectorAll("[data-what-if-chart]")) whatIf.mount(drawing);
  scroll.mount(root);
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) document.getElementById(opener.dataset.opens)?.showModal();
  if (event.target.closest("[data-closes]")) event.target.closest("dialog")?.close();
  const copier = event.target.closest("[data-copy]");
  if (copier) copy(copier);
  for (const menu of document.querySelectorAll("details[data-menu][open]")) if (!menu.contains(event.target)) menu.open = false;
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

document.addEventListener("input", (event) => {
  const rows = event.target.dataset?.filter;
  if (!rows) return;
  const wanted = event.target.value.toLowerCase();
  for (const row of document.querySelectorAll(rows)) row.hidden = !row.textContent.toLowerCase().includes(wanted);
});

async function copy(button) {
  const text = button.parentElement.querySelector("pre").textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.parentElement.querySelector("pre"));
    button.textContent = "Press Ctrl+C";
  }
  setTimeout(() => (button.textContent = "Copy"), 1600);
}

start();
