/** The text exactly as it was pasted, every word tinted by what the model held for likely after it. */

import { element, moveByKey } from "./dom.js";
import { tone } from "./reading.js";

export class DocumentView {
  /**
   * @param {HTMLElement} container
   * @param {(index: number) => void} onSelect called with the word that is pointed at or moved to
   */
  constructor(container, onSelect) {
    this.container = container;
    this.words = [];
    this.selected = -1;
    container.addEventListener("pointerover", (event) => this.#point(event, onSelect));
    container.addEventListener("focusin", (event) => this.#point(event, onSelect));
    container.addEventListener("keydown", (event) => this.#move(event, onSelect));
  }

  /** @param {import("./reading.js").Reading} reading */
  show(reading) {
    const fragment = document.createDocumentFragment();
    let end = 0;
    this.selected = -1;
    this.words = reading.spans.map(([start, stop], index) => {
      const word = makeWord(reading, index);
      fragment.append(reading.text.slice(end, start), word);
      end = stop;
      return word;
    });
    fragment.append(reading.text.slice(end));
    this.#underline(reading);
    this.container.replaceChildren(fragment);
    this.container.scrollTop = 0;
  }

  /** Frame the words of an entry of the evidence, or none. */
  highlight(entry) {
    for (const word of this.container.querySelectorAll(".highlighted")) word.classList.remove("highlighted");
    if (!entry) return;
    for (const word of this.words.slice(entry.first, entry.last + 1)) word.classList.add("highlighted");
  }

  select(index) {
    if (index === this.selected) return; // a word that lost its tabindex for a moment would lose its focus
    const before = this.words[this.selected];
    if (before) {
      before.classList.remove("selected");
      before.removeAttribute("tabindex");
      before.removeAttribute("aria-describedby");
    }
    const word = this.words[index];
    word.classList.add("selected");
    word.tabIndex = 0; // one stop for the whole text; arrow keys move between its words
    word.setAttribute("aria-describedby", "readout");
    this.selected = index;
  }

  /** Scroll the text, never the page, until the selected word is in view. */
  reveal() {
    const word = this.words[this.selected].getBoundingClientRect();
    const view = this.container.getBoundingClientRect();
    if (word.top < view.top || word.bottom > view.bottom) {
      this.container.scrollTop += word.top - view.top - view.height / 2;
    }
  }

  /** Where n-grams share words, the stronger one's line is drawn. */
  #underline(reading) {
    for (const { first, last, weight, colour, strength } of (reading.evidence ?? []).toReversed()) {
      for (const word of this.words.slice(first, last + 1)) {
        word.classList.add("evident");
        word.classList.toggle("against", weight < 0);
        word.style.setProperty("--line-colour", colour);
        word.style.setProperty("--line-strength", strength.toFixed(3));
      }
    }
  }

  #point(event, onSelect) {
    const word = event.target.closest(".word");
    if (word) onSelect(Number(word.dataset.index));
  }

  #move(event, onSelect) {
    const target = moveByKey(event.key, this.selected, this.words.length);
    if (target === null) return;
    event.preventDefault();
    onSelect(target);
    this.words[target].focus({ preventScroll: true });
    this.reveal();
  }
}

function makeWord(reading, index) {
  const word = element("span", "word", reading.text.slice(...reading.spans[index]));
  word.dataset.index = index;
  if (!word.textContent) {
    word.classList.add("added");
    word.dataset.token = reading.tokens[index]; // drawn by the style sheet: it is no part of the text
  }
  if (reading.unknown.has(index)) word.classList.add("unknown");
  if (reading.skipped?.[index]) {
    word.classList.add("skipped");
  } else {
    if (reading.skimmed?.[index]) word.classList.add("skimmed");
    const { colour, strength } = tone(reading, index);
    word.style.setProperty("--colour", colour);
    word.style.setProperty("--strength", strength.toFixed(3));
  }
  return word;
}
