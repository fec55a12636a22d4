/** The curve over the words: the sentiment with its border at 0, or one curve per class. */

import { count, moveByKey, percent, signed, svgElement } from "./dom.js";
import { downsample } from "./downsample.js";
import { classColour, leading, wordAt } from "./reading.js";

const HEIGHT = 220;
const MARGIN = { top: 12, right: 12, bottom: 28, left: 40 };
const DOT_RADIUS = 3;
const DOT_PITCH = 8; // pixels from word to word below which dots would merge into a band

// A slider's up is more; in reading order that is to the right.
const SLIDER_KEYS = { ArrowUp: "ArrowRight", ArrowDown: "ArrowLeft", PageUp: "PageDown", PageDown: "PageUp" };

export class CurveView {
  /**
   * @param {HTMLElement} container the slider that the curve is drawn into
   * @param {(index: number) => void} onSelect called with the word that is pointed at or moved to
   */
  constructor(container, onSelect) {
    this.container = container;
    this.reading = null;
    this.selected = 0;
    for (const event of ["pointermove", "pointerdown"]) {
      container.addEventListener(event, (pointer) => this.#point(pointer, onSelect));
    }
    container.addEventListener("keydown", (event) => this.#move(event, onSelect));
    new ResizeObserver(() => this.#draw()).observe(container);
  }

  /** @param {import("./reading.js").Reading} reading */
  show(reading) {
    this.reading = reading;
    this.series = makeSeries(reading);
    this.lowest = reading.sentiment ? -1 : 0;
    this.selected = reading.spans.length - 1;
    this.container.setAttribute("aria-valuemin", 1);
    this.container.setAttribute("aria-valuemax", reading.spans.length);
    this.#draw();
  }

  select(index) {
    this.selected = index;
    this.container.setAttribute("aria-valuenow", index + 1);
    this.container.setAttribute("aria-valuetext", this.#describe(index));
    this.#mark();
  }

  #draw() {
    this.width = this.container.clientWidth;
    if (!this.reading || this.width === 0) return;
    const svg = svgElement("svg", { width: this.width, height: HEIGHT, "aria-hidden": "true" });
    this.marker = svgElement("g", { class: "marker" });
    svg.append(this.#gradient(), this.#grid());
    svg.append(...this.series.flatMap((series) => this.#line(series)), this.marker);
    this.container.replaceChildren(svg);
    this.#mark();
  }

  #grid() {
    const levels = this.reading.sentiment ? [-1, 0, 1] : [0, 0.5, 1];
    const grid = svgElement("g", { class: "grid" });
    for (const level of levels) {
      const border = this.reading.sentiment && level === 0;
      const y = this.#y(level);
      const label = this.reading.sentiment ? signed(level).replace(".00", "") : percent(level).replace(".0", "");
      grid.append(
        svgElement("line", { x1: MARGIN.left, x2: this.#right(), y1: y, y2: y, class: border ? "border" : "" }),
        svgElement("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, label),
      );
    }
    const words = count(this.reading.spans.length, "word");
    grid.append(
      svgElement("text", { x: MARGIN.left, y: HEIGHT - 6 }, "first word"),
      svgElement("text", { x: this.#right(), y: HEIGHT - 6, "text-anchor": "end" }, `after ${words}`),
    );
    return grid;
  }

  #gradient() {
    const border = this.#y(0);
    const ends = { gradientUnits: "userSpaceOnUse", x1: 0, x2: 0, y1: border - 6, y2: border + 6 };
    return svgElement(
      "linearGradient",
      { id: "sides", ...ends },
      svgElement("stop", { offset: 0, class: "positive" }),
      svgElement("stop", { offset: 1, class: "negative" }),
    );
  }

  #line({ values, colour, lead }) {
    const kept = downsample(values, Math.round(this.#right() - MARGIN.left));
    const points = kept.map((index) => `${this.#x(index).toFixed(1)},${this.#y(values[index]).toFixed(1)}`);
    const kind = kept.length < values.length ? "series dense" : "series";
    const line = svgElement("polyline", { class: lead ? `${kind} lead` : kind, points: points.join(" ") });
    line.style.setProperty("--colour", colour);
    return [...this.#area(points, colour), line, ...this.#dots(values, colour)];
  }

  /** What lies between the sentiment and its border; class curves would hide each other. */
  #area(points, colour) {
    if (!this.reading.sentiment) return [];
    const ends = [`${this.#right()},${this.#y(0)}`, `${MARGIN.left},${this.#y(0)}`];
    const area = svgElement("polygon", { class: "area", points: [...points, ...ends].join(" ") });
    area.style.setProperty("--colour", colour);
    return [area];
  }

  #dots(values, colour) {
    if (this.#x(1) - this.#x(0) < DOT_PITCH) return [];
    return values.map((value, index) => {
      const skipped = this.reading.skipped?.[index];
      const position = { cx: this.#x(index), cy: this.#y(value), r: skipped ? DOT_RADIUS - 1 : DOT_RADIUS };
      const dot = svgElement("circle", { class: skipped ? "dot skipped" : "dot", ...position });
      dot.style.setProperty("--colour", colour);
      return dot;
    });
  }

  #mark() {
    if (!this.marker) return;
    const x = this.#x(this.selected);
    const line = svgElement("line", { x1: x, x2: x, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom });
    const dots = this.series.map(({ values, colour }) => {
      const dot = svgElement("circle", { cx: x, cy: this.#y(values[this.selected]), r: DOT_RADIUS + 2 });
      dot.style.setProperty("--colour", colour);
      return dot;
    });
    this.marker.replaceChildren(line, ...dots);
  }

  #describe(index) {
    const { reading } = this;
    const best = leading(reading.probabilities[index]);
    const state = reading.skipped?.[index] ? "skipped; " : "";
    const probability = percent(reading.probabilities[index][best]);
    return `word ${index + 1}, ${wordAt(reading, index)}: ${state}${reading.labels[best]} ${probability}`;
  }

  #point(event, onSelect) {
    const inPlot = event.clientX - this.container.getBoundingClientRect().left - MARGIN.left;
    const last = this.reading.spans.length - 1;
    const index = Math.round((inPlot / (this.#right() - MARGIN.left)) * last);
    onSelect(Math.min(last, Math.max(0, index)));
  }

  #move(event, onSelect) {
    const target = moveByKey(SLIDER_KEYS[event.key] ?? event.key, this.selected, this.reading.spans.length);
    if (target === null) return;
    event.preventDefault();
    onSelect(target);
  }

  #right() {
    return this.width - MARGIN.right;
  }

  #x(index) {
    const last = Math.max(1, this.reading.spans.length - 1);
    return MARGIN.left + (index / last) * (this.#right() - MARGIN.left);
  }

  #y(value) {
    const share = (value - this.lowest) / (1 - this.lowest);
    return HEIGHT - MARGIN.bottom - share * (HEIGHT - MARGIN.top - MARGIN.bottom);
  }
}

/** @returns {{values: number[], colour: string, lead: boolean}[]} the winning class last, so that it is on top */
function makeSeries(reading) {
  if (reading.sentiment) return [{ values: reading.sentiment, colour: "url(#sides)", lead: true }];
  const winner = leading(reading.probabilities.at(-1));
  const series = reading.labels.map((_, label) => ({
    values: reading.probabilities.map((row) => row[label]),
    colour: classColour(reading, label),
    lead: label === winner,
  }));
  return series.sort((a, b) => a.lead - b.lead);
}
