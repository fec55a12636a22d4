/** What the answer rests on: the n-grams that weighed most, or the words that were attended to most. */

import { element, percent, signed } from "./dom.js";

export class EvidenceView {
  /**
   * @param {HTMLElement} section
   * @param {(entry: import("./reading.js").Evidence | null) => void} onPoint called with the entry that is pointed at
   */
  constructor(section, onPoint) {
    this.section = section;
    this.entries = [];
    const list = section.querySelector("ol");
    for (const event of ["pointerover", "focusin"]) list.addEventListener(event, ({ target }) => this.#point(target, onPoint));
    for (const event of ["pointerleave", "focusout"]) list.addEventListener(event, () => onPoint(null));
  }

  /** @param {import("./reading.js").Reading} reading */
  show(reading) {
    this.entries = reading.evidence ?? [];
    this.section.hidden = this.entries.length === 0;
    if (this.section.hidden) return;
    const [title, note] = reading.attention ? describeAttention() : describeNgrams(reading);
    this.section.querySelector("h2").textContent = title;
    this.section.querySelector(".note").textContent = note;
    const rows = this.entries.map((entry, index) => makeRow(reading, entry, index));
    this.section.querySelector("ol").replaceChildren(...rows);
  }

  #point(target, onPoint) {
    const row = target.closest("button");
    if (row) onPoint(this.entries[Number(row.dataset.index)]);
  }
}

function describeAttention() {
  return ["The words attended to most", "Their shares of the attention to the whole text; underlined in it."];
}

function describeNgrams({ answer, evidence }) {
  const held = evidence.reduce((sum, { share }) => sum + share, 0);
  return [
    "The n-grams that weighed most",
    `The strongest ${evidence.length}, which hold ${percent(held)} of the pooled features. What each adds to “${answer}” over the mean of all labels, and its share of the pooled features. ` +
      "Underlined in the text: solid for, dotted against.",
  ];
}

function makeRow(reading, entry, index) {
  const { first, last, weight, share, colour, strength } = entry;
  const text = reading.text.slice(reading.spans[first][0], reading.spans[last][1]) || reading.tokens[first]; // [CLS] stands nowhere
  const bar = element("span", weight < 0 ? "bar against" : "bar");
  bar.style.setProperty("--colour", colour);
  bar.style.setProperty("--share", strength);
  const number = reading.attention ? percent(weight) : signed(weight);
  const row = element(
    "button",
    "",
    element("span", "ngram", text),
    element("span", "track", bar),
    element("span", "number", number),
  );
  if (!reading.attention) row.append(element("span", "number share", percent(share)));
  row.type = "button";
  row.dataset.index = index;
  return element("li", "", row);
}
