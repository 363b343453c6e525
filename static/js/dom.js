/** Small helpers shared by all modules. */

const SVG = "http://www.w3.org/2000/svg";

/** An SVG element with attributes; children are elements or text. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** An HTML element with a class; text children are never parsed as markup. */
export function html(name, className = "", ...children) {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** The JSON of a `json_script` block, or null. */
export function json(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

/** A design token's colour in the theme of now, as the browser resolves it. */
export function colour(token) {
  const probe = document.createElement("i");
  probe.hidden = true;
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function clock(seconds, withSeconds = true) {
  const at = new Date(seconds * 1000);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}` + (withSeconds ? `:${two(at.getSeconds())}` : "");
}

/** Date and time of day where the reader is. */
export function stamp(moment) {
  const at = new Date(moment);
  const two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at / 1000)}`;
}

/** The zone of every time of day on the page: UTC, UTC+2, UTC−3:30. */
export function zone(moment) {
  const minutes = -new Date(moment).getTimezoneOffset();
  const [whole, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return minutes ? `UTC${minutes < 0 ? "−" : "+"}${whole}${rest ? `:${String(rest).padStart(2, "0")}` : ""}` : "UTC";
}

export const whole = (moment) => `${stamp(moment)} ${zone(moment)}`;

/** Hours since a start: 12 h, 1.5 h; exact to two digits. */
export function hours(seconds, exact = false) {
  const value = seconds / 3600;
  return exact ? `${value.toFixed(2)} h` : `${+value.toFixed(2)} h`;
}

export function duration(seconds) {
  if (seconds >= 5400) return `${(seconds / 3600).toFixed(2)} h`;
  if (seconds >= 60) {
    const [minutes, rest] = [Math.floor(Math.round(seconds) / 60), Math.round(seconds) % 60];
    return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  }
  return seconds >= 1 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds * 1000)} ms`;
}

export const thousands = (n) => Math.round(n).toLocaleString("en-US");

/** Calls back with the element's width, now and whenever it changes. */
export function onWidth(element, callback) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(element.clientWidth);
    if (width && width !== last) callback((last = width));
  }).observe(element);
}

/** Calls back when the theme changes, by the switch or by the system. */
export function onTheme(callback) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", callback);
}

export const isTyping = (target) => target.closest?.("input, textarea, select, [contenteditable]") !== null;
