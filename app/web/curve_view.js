/** A chart over the words, and the slider that moves through them. */

import { count, moveByKey, svgElement } from "./dom.js";
import { downsample } from "./downsample.js";

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
    this.chart = null;
    this.selected = 0;
    for (const event of ["pointermove", "pointerdown"]) {
      container.addEventListener(event, (pointer) => this.#point(pointer, onSelect));
    }
    container.addEventListener("keydown", (event) => this.#move(event, onSelect));
    new ResizeObserver(() => this.#draw()).observe(container);
  }

  /** @param {import("./charts.js").Chart} chart */
  show(chart) {
    this.chart = chart;
    this.words = chart.series[0].values.length;
    this.lowest = chart.levels[0].value;
    this.highest = chart.levels.at(-1).value;
    this.selected = this.words - 1;
    this.container.setAttribute("aria-valuemin", 1);
    this.container.setAttribute("aria-valuemax", this.words);
    this.#draw();
  }

  select(index) {
    this.selected = index;
    this.container.setAttribute("aria-valuenow", index + 1);
    this.container.setAttribute("aria-valuetext", this.chart.describe(index));
    this.#mark();
  }

  #draw() {
    this.width = this.container.clientWidth;
    this.height = this.container.clientHeight;
    if (!this.chart || this.width === 0) return;
    const svg = svgElement("svg", { width: this.width, height: this.height, "aria-hidden": "true" });
    this.marker = svgElement("g", { class: "marker" });
    svg.append(this.#gradient(), this.#grid());
    svg.append(...this.chart.series.flatMap((series) => this.#line(series)), this.marker);
    this.container.replaceChildren(svg);
    this.#mark();
  }

  #grid() {
    const grid = svgElement("g", { class: "grid" });
    for (const { value, label, border } of this.chart.levels) {
      const y = this.#y(value);
      grid.append(
        svgElement("line", { x1: MARGIN.left, x2: this.#right(), y1: y, y2: y, class: border ? "border" : "" }),
        svgElement("text", { x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, label),
      );
    }
    const words = count(this.words, "word");
    grid.append(
      svgElement("text", { x: MARGIN.left, y: this.height - 6 }, "first word"),
      svgElement("text", { x: this.#right(), y: this.height - 6, "text-anchor": "end" }, `after ${words}`),
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

  /** What lies between a chart's only curve and its border. */
  #area(points, colour) {
    if (!this.chart.filled) return [];
    const ends = [`${this.#right()},${this.#y(0)}`, `${MARGIN.left},${this.#y(0)}`];
    const area = svgElement("polygon", { class: "area", points: [...points, ...ends].join(" ") });
    area.style.setProperty("--colour", colour);
    return [area];
  }

  #dots(values, colour) {
    if (this.#x(1) - this.#x(0) < DOT_PITCH) return [];
    return values.map((value, index) => {
      const skipped = this.chart.skipped?.[index];
      const position = { cx: this.#x(index), cy: this.#y(value), r: skipped ? DOT_RADIUS - 1 : DOT_RADIUS };
      const dot = svgElement("circle", { class: skipped ? "dot skipped" : "dot", ...position });
      dot.style.setProperty("--colour", colour);
      return dot;
    });
  }

  #mark() {
    if (!this.marker) return;
    const x = this.#x(this.selected);
    const line = svgElement("line", { x1: x, x2: x, y1: MARGIN.top, y2: this.height - MARGIN.bottom });
    const dots = this.chart.series.map(({ values, colour }) => {
      const dot = svgElement("circle", { cx: x, cy: this.#y(values[this.selected]), r: DOT_RADIUS + 2 });
      dot.style.setProperty("--colour", colour);
      return dot;
    });
    this.marker.replaceChildren(line, ...dots);
  }

  #point(event, onSelect) {
    const inPlot = event.clientX - this.container.getBoundingClientRect().left - MARGIN.left;
    const last = this.words - 1;
    const index = Math.round((inPlot / (this.#right() - MARGIN.left)) * last);
    onSelect(Math.min(last, Math.max(0, index)));
  }

  #move(event, onSelect) {
    const target = moveByKey(SLIDER_KEYS[event.key] ?? event.key, this.selected, this.words);
    if (target === null) return;
    event.preventDefault();
    onSelect(target);
  }

  #right() {
    return this.width - MARGIN.right;
  }

  #x(index) {
    const last = Math.max(1, this.words - 1);
    return MARGIN.left + (index / last) * (this.#right() - MARGIN.left);
  }

  #y(value) {
    const share = (value - this.lowest) / (this.highest - this.lowest);
    return this.height - MARGIN.bottom - share * (this.height - MARGIN.top - MARGIN.bottom);
  }
}
