/** The token view: strips over the window, one cursor through strips and text, the numbers in words. */

import { colour, json, onTheme, onWidth } from "./dom.js";

export function mount(root) {
  const data = json("strips-data");
  if (!data || !data.texts.length || root.dataset.mounted) return;
  root.dataset.mounted = "1";
  new View(root, data);
}

class View {
  constructor(root, data) {
    this.data = data;
    this.root = root;
    this.strips = [...root.querySelectorAll("[data-strip]")];
    this.readout = root.querySelector("[data-readout]");
    this.at = null;
    onWidth(root, () => this.paint());
    onTheme(() => this.paint());
    for (const canvas of this.strips) canvas.addEventListener("pointermove", (event) => this.go(Math.floor((event.offsetX / canvas.clientWidth) * data.texts.length)));
    root.querySelector("[data-toks]").addEventListener("pointerover", (event) => {
      const token = event.target.closest("[data-i]");
      if (token) this.go(Number(token.dataset.i));
    });
    this.onKey = (event) => {
      if (!root.isConnected) return document.removeEventListener("keydown", this.onKey);
      if (event.target.closest?.("input, textarea, select, .chart") || event.ctrlKey || event.metaKey) return;
      if (event.key === "h" || event.key === "l") this.go(Math.min(data.texts.length - 1, Math.max(0, (this.at ?? -1) + (event.key === "l" ? 1 : -1))), true);
    };
    document.addEventListener("keydown", this.onKey);
  }

  paint() {
    const paints = { trained: this.trained(), logprobs: this.logprobs(), versions: this.versions(), advantage: this.advantage() };
    const empty = colour("panel-2");
    for (const canvas of this.strips) {
      const count = this.data.texts.length;
      const scale = devicePixelRatio || 1;
      canvas.width = canvas.clientWidth * scale;
      canvas.height = 16 * scale;
      const pen = canvas.getContext("2d");
      pen.fillStyle = empty;
      pen.fillRect(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < count; i++) {
        const fill = paints[canvas.dataset.strip](i);
        if (!fill) continue;
        const [shade, share] = fill;
        const left = Math.floor((i * canvas.width) / count);
        const right = Math.ceil(((i + 1) * canvas.width) / count);
        pen.fillStyle = shade;
        pen.fillRect(left, canvas.height * (1 - share), right - left, canvas.height * share);
      }
    }
    this.cursor();
  }

  trained() {
    const [yes, no] = [colour("ok"), colour("idle")];
    return (i) => (this.data.trained[i] ? [yes, 1] : this.data.sampled[i] ? [no, 0.45] : null);
  }

  /** The bar's height is the log-probability, from 0 (full) to −6 and below (a sliver); blank outside the mask. */
  logprobs() {
    const shade = colour("rollout");
    return (i) => (this.data.logprobs[i] === null ? null : [shade, Math.max(0.08, 1 + Math.max(this.data.logprobs[i], -6) / 6)]);
  }

  versions() {
    const known = this.data.versions.filter((v) => v !== null);
    const [low, high] = [Math.min(...known), Math.max(...known)];
    const shade = colour("switching");
    return (i) => {
      const version = this.data.versions[i];
      return version === null ? null : [shade, high === low ? 0.7 : 0.4 + (0.6 * (version - low)) / (high - low)];
    };
  }

  advantage() {
    const value = this.data.advantage;
    const shade = colour(value < 0 ? "bad" : "ok");
    return (i) => (this.data.trained[i] && value !== null ? [shade, Math.min(1, 0.25 + Math.abs(value) / 3)] : null);
  }

  go(i, scroll = false) {
    if (i < 0 || i >= this.data.texts.length) return;
    this.at = i;
    const { data } = this;
    const parts = [`token ${data.start + i}`, JSON.stringify(data.texts[i])];
    parts.push(data.trained[i] ? "trained" : data.sampled[i] ? "sampled, not trained" : "context");
    if (data.logprobs[i] !== null) parts.push(`log p ${data.logprobs[i].toFixed(4)}`);
    if (data.versions[i] !== null) parts.push(`v${data.versions[i]}`);
    if (data.trained[i] && data.advantage !== null) parts.push(`advantage ${data.advantage.toFixed(3)}`);
    this.readout.textContent = parts.join(" · ");
    this.root.querySelector(".here")?.classList.remove("here");
    const token = this.root.querySelector(`[data-i="${i}"]`);
    token?.classList.add("here");
    if (scroll) token?.scrollIntoView({ block: "nearest" });
    this.cursor();
  }

  cursor() {
    if (this.at === null) return;
    const token = this.root.querySelector(`[data-i="${this.at}"]`);
    token?.classList.add("here");
  }
}
