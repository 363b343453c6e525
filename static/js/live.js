/** The live feed of a run: a socket whose messages hold what changed. It never moves what the reader looks at. */

const FALLBACK_BEAT_S = 12;

export function mount(head, parts) {
  return new Feed(head, parts);
}

class Feed {
  constructor(head, parts) {
    this.run = head.dataset.run;
    this.page = head.dataset.page;
    this.seq = Number(head.dataset.seq);
    this.parts = parts;
    this.calm = calm("ended" in head.dataset);
    this.pill = head.querySelector("[data-live-pill]");
    this.text = head.querySelector("[data-live-text]");
    this.held = null; // updates that wait while the reader holds the page: {fragments, points, reward, num_new}
    this.numNew = 0;
    this.tries = 0;
    this.heard = Date.now();
    this.pill.addEventListener("click", () => this.toggle());
    addEventListener("beforeunload", () => (this.leaving = true));
    setInterval(() => this.tick(), 1000);
    this.connect();
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws/runs/${this.run}/?since=${this.seq}&page=${this.page}`);
    this.socket = socket;
    socket.onmessage = (event) => this.receive(JSON.parse(event.data));
    socket.onopen = () => {
      this.tries = 0;
      this.heard = Date.now();
      this.show(this.held ? "held" : "live");
    };
    socket.onclose = (event) => {
      if (this.leaving || this.ended) return;
      if (event.code === 4404) return this.show("reconnecting", "not available");
      this.show("reconnecting");
      const wait = Math.min(15_000, 400 * 2 ** this.tries++) * (0.6 + Math.random() * 0.8);
      setTimeout(() => this.connect(), wait);
    };
  }

  receive(message) {
    this.heard = Date.now();
    document.body.classList.remove("is-stale");
    if (message.type === "update") this.update(message);
    else if (message.type === "reload") this.reload(message.seq);
    else if (message.type === "beat" && !this.held) this.show("live");
  }

  update(message) {
    this.seq = message.seq;
    this.calm = calm(message.ended);
    this.numNew += message.num_new ?? 0;
    if (this.held) this.held = join(this.held, message);
    else this.apply(message);
    this.show(this.held ? "held" : "live");
  }

  apply(message) {
    keepPlace(() => this.change(message));
  }

  change(message) {
    for (const [name, markup] of Object.entries(message.fragments)) this.swap(`f-${name}`, markup);
    if (message.points) this.parts.water?.add(message.points);
    if (message.reward) this.parts.reward?.set(message.reward);
    if (message.state_changed) document.body.dispatchEvent(new CustomEvent("gyre-state"));
    this.parts.onUpdate?.(message);
  }

  /** Server-rendered and escaped there. Unchanged markup is not touched; a focused row keeps its focus. */
  swap(id, markup) {
    const element = document.getElementById(id);
    if (!element || element.dataset.markup === markup) return;
    const scroll = element.scrollTop;
    window.htmx.swap({ target: element, text: markup, swap: "innerMorph" });
    element.dataset.markup = "";
    element.scrollTop = scroll;
    this.parts.onSwap?.(element);
  }

  async reload(seq) {
    this.seq = seq;
    const fresh = await this.parts.water?.reload();
    if (fresh) {
      this.parts.reward?.set(fresh.reward);
      this.calm = calm(!fresh.water.live);
    }
    if (!this.parts.water) this.show("live", "changed: reload");
  }

  toggle() {
    if (this.held) {
      const waiting = this.held;
      this.held = null;
      this.apply(waiting);
      this.numNew = 0;
    } else this.held = { fragments: {} };
    this.show(this.held ? "held" : "live");
  }

  /** Without a message for a while the data is dimmed and its age is shown. */
  tick() {
    const silent = (Date.now() - this.heard) / 1000;
    if (silent < FALLBACK_BEAT_S) return;
    document.body.classList.add("is-stale");
    this.show("reconnecting", `last heard ${Math.round(silent)} s ago`);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.close();
  }

  show(state, text) {
    const count = this.numNew && (this.held || this.parts.showsCount) ? ` · ${this.numNew} new` : "";
    this.pill.dataset.state = state;
    this.text.textContent = (text ?? { live: this.calm, held: "paused", reconnecting: "reconnecting", connecting: "connecting" }[state]) + count;
    this.pill.setAttribute("aria-pressed", String(this.held !== null));
  }
}

/** What the pill says while nothing is wrong. */
const calm = (ended) => (ended ? "up to date" : "live");

/** Scrolls so that the element in the middle of the window stays there when something above it changes its height. */
function keepPlace(change) {
  const middle = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest(".card, .kpis, header, main > *");
  const before = middle?.getBoundingClientRect().top;
  change();
  if (!middle?.isConnected || scrollY === 0) return;
  const moved = middle.getBoundingClientRect().top - before;
  if (Math.abs(moved) >= 1) scrollBy({ top: moved, behavior: "instant" });
}

function join(old, fresh) {
  const points = old.points && fresh.points ? { ...fresh.points, water: old.points.water.concat(fresh.points.water), decisions: old.points.decisions.concat(fresh.points.decisions), steps: old.points.steps.concat(fresh.points.steps), lanes: joinLanes(old.points.lanes, fresh.points.lanes) } : (fresh.points ?? old.points);
  return { fragments: { ...old.fragments, ...fresh.fragments }, points, reward: fresh.reward ?? old.reward, state_changed: old.state_changed || fresh.state_changed };
}

/** Spans of both messages; the newer one counts for a span that both have. */
function joinLanes(old, fresh) {
  return fresh.map((lane) => {
    const first = lane.spans[0]?.[0] ?? Infinity;
    const before = (old.find((one) => one.index === lane.index)?.spans ?? []).filter(([start]) => start < first);
    return { ...lane, spans: before.concat(lane.spans) };
  });
}
