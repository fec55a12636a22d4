/** Small helpers for building the page and its numbers. */

/** @returns {HTMLElement} an element with a class and children; strings become text, never markup */
export function element(tag, className, ...children) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
}

/** @returns {SVGElement} */
export function svgElement(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** @returns {HTMLElement} a small square in a CSS colour */
export function swatch(colour, className = "swatch") {
  const node = element("span", className);
  node.style.setProperty("--colour", colour);
  return node;
}

/** @returns {string} 0.0712 as "7.1 %" */
export function percent(share) {
  return `${(share * 100).toFixed(1)}\u00a0%`;
}

/** @returns {string} a sentiment with its sign, "+0.86" or "−0.40" */
export function signed(value) {
  const size = Math.abs(value).toFixed(2);
  if (Number(size) === 0) return size;
  return (value < 0 ? "−" : "+") + size;
}

/** @returns {string} "12.3 ms" */
export function milliseconds(value) {
  return `${value.toFixed(value < 10 ? 1 : 0)}\u00a0ms`;
}

/** @returns {string} 20000 as "20,000" */
export function digits(number) {
  return number.toLocaleString("en");
}

/** @returns {string} "1 word", "20,000 words" */
export function count(number, noun) {
  return `${digits(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** @returns {string} a phrase with a capital at its start and a full stop at its end */
export function sentence(phrase) {
  if (!phrase) return "";
  return phrase[0].toUpperCase() + phrase.slice(1) + (phrase.endsWith(".") ? "" : ".");
}

const PAGE_WORDS = 10;

/** @returns {number | null} the word that a key leads to in reading order, or null for any other key */
export function moveByKey(key, index, words) {
  const targets = {
    ArrowLeft: index - 1,
    ArrowRight: index + 1,
    PageUp: index - PAGE_WORDS,
    PageDown: index + PAGE_WORDS,
    Home: 0,
    End: words - 1,
  };
  if (!(key in targets)) return null;
  return Math.min(words - 1, Math.max(0, targets[key]));
}
