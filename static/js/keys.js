/** Keyboard: / search, ? help, g r runs, j and k through rows, Enter opens. */

import { isTyping } from "./dom.js";

const PLACES = { r: "/", o: "", e: "executions/", c: "cells/", d: "decisions/", b: "batches/", w: "what-if/" };

export function mount() {
  let waiting = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    if (waiting) {
      waiting = false;
      return go(event);
    }
    if (event.key === "g") {
      waiting = true;
      setTimeout(() => (waiting = false), 1200);
    } else if (event.key === "/") focusSearch(event);
    else if (event.key === "?") document.getElementById("keys")?.showModal();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "p") document.querySelector("[data-live-pill]")?.click();
    else if (event.key === "Enter" && event.target === document.body) document.querySelector(".at[data-row] a")?.click();
    else if (event.key === "Escape") document.querySelectorAll("details[data-menu][open]").forEach((menu) => (menu.open = false));
  });
}

function go(event) {
  const place = PLACES[event.key];
  const run = document.querySelector("[data-run]")?.dataset.run;
  if (place === undefined) return;
  event.preventDefault();
  if (place === "/") location.assign("/");
  else if (run) location.assign(`/runs/${run}/${place}`);
}

function focusSearch(event) {
  const field = document.querySelector("[data-search]");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
}

/** Moves through the rows in the reader's sight; the row's link takes the focus. */
function step(by) {
  const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.classList.contains("at"));
  const next = rows[Math.min(rows.length - 1, Math.max(0, now < 0 ? (by > 0 ? 0 : rows.length - 1) : now + by))];
  rows[now]?.classList.remove("at");
  next.classList.add("at");
  next.querySelector("a")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
