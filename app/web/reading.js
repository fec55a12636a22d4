/** One text as it was read: its words, what the model held for likely after each, and their colours. */

export const HALVES = ["fast half", "slow half"];
const PALETTE_SIZE = 8; // --class-0 … --class-7 in theme.css

/**
 * @typedef {object} Reading
 * @property {string} text
 * @property {string[]} labels
 * @property {number[][]} probabilities one row per word, one column per label
 * @property {number[] | null} sentiment one value in [-1, 1] per word, or null for models without polarity
 * @property {number[] | null} polarity one value in [-1, 1] per label
 * @property {string[]} tokens
 * @property {[number, number][]} spans where each word stands in `text`, in UTF-16 units
 * @property {Set<number>} unknown words outside the vocabulary, which are read as one and the same
 * @property {boolean[] | null} skipped
 * @property {number[] | null} keepProbability
 * @property {number | null} skipRate
 * @property {boolean[] | null} skimmed words that only the small cell read
 * @property {number[] | null} readProbability
 * @property {number[][] | null} forgettingRates one row per word, one column per memory group, the slowest first
 * @property {number[] | null} periods of the memory groups: group k runs at every so many-th word
 * @property {[number, number][] | null} halfWeights per word, what the fast and the slow units add to the answer's logit
 * @property {[number, number] | null} halfTau how slow they are
 * @property {number[] | null} attention one share per word
 * @property {number[] | null} ngramShare per word, the share of the features won by windows that end there
 * @property {Evidence[] | null} evidence what weighed most, the strongest first
 * @property {number[]} places of the labels in the palette
 * @property {string} answer the label
 * @property {boolean} causal
 *
 * @typedef {object} Evidence words that weighed together
 * @property {number} first index of the first word
 * @property {number} last index of the last word
 * @property {number} weight
 * @property {number | null} share
 * @property {string} colour
 * @property {number} strength in [0, 1], beside the strongest
 */

/** @returns {Reading} */
export function makeReading(text, answer, labels, model) {
  const { steps, skip_map: skipMap, skim_map: skimMap } = answer;
  const reading = {
    text,
    labels,
    probabilities: steps.probs,
    sentiment: steps.sentiment ?? null,
    polarity: model.polarity ?? null,
    tokens: steps.tokens,
    spans: utf16Spans(text, steps.offsets),
    unknown: new Set(steps.unknown),
    skipped: skipMap?.skipped ?? null,
    keepProbability: skipMap?.keep_probability ?? null,
    skipRate: skipMap?.skip_rate ?? null,
    skimmed: skimMap?.skimmed ?? null,
    readProbability: skimMap?.read_probability ?? null,
    forgettingRates: answer.forgetting?.rates ?? null,
    periods: answer.groups?.periods ?? null,
    halfWeights: answer.halves?.weights ?? null,
    halfTau: answer.halves?.tau ?? null,
    attention: answer.attention?.weights ?? null,
    ngramShare: answer.ngrams?.share ?? null,
    places: placesInPalette(answer.probs),
    answer: answer.label,
    causal: steps.causal,
  };
  reading.evidence = makeEvidence(reading, answer);
  return reading;
}

function makeEvidence(reading, { ngrams, attention }) {
  const top = ngrams?.top ?? attention?.top.map((word) => ({ ...word, first: word.index, last: word.index }));
  if (!top) return null;
  const strongest = Math.max(...top.map(({ weight }) => Math.abs(weight)), Number.MIN_VALUE);
  const winner = classColour(reading, reading.labels.indexOf(reading.answer));
  return top.map(({ first, last, weight, share = null }) => ({
    first,
    last,
    weight,
    share,
    colour: ngrams ? (weight < 0 ? "var(--neutral)" : winner) : "var(--focus)",
    strength: Math.abs(weight) / strongest,
  }));
}

/**
 * The service counts characters (code points), JavaScript counts UTF-16 units: they part at the first emoji.
 *
 * @param {[number, number][]} offsets in characters, rising
 */
export function utf16Spans(text, offsets) {
  if (!/[\ud800-\udfff]/.test(text)) return offsets;
  const unitOf = [0];
  for (const character of text) unitOf.push(unitOf.at(-1) + character.length);
  return offsets.map(([start, end]) => [unitOf[start], unitOf[end]]);
}

/** @returns {number} the index of the largest value */
export function leading(values) {
  return values.reduce((best, value, index) => (value > values[best] ? index : best), 0);
}

/** @returns {string} the CSS colour of a class: its polarity's side, or its own place in the palette */
export function classColour(reading, index) {
  if (reading.polarity) return sideColour(reading.polarity[index]);
  return hasColour(reading, index) ? `var(--class-${reading.places[index]})` : "var(--neutral)";
}

/** @returns {boolean} whether a class has a colour of its own, or shares one with the improbable ones */
export function hasColour(reading, index) {
  return Boolean(reading.polarity) || reading.places[index] < PALETTE_SIZE;
}

/** Each label its own place; where there are more than colours, the most probable ones come first. */
function placesInPalette(probabilities) {
  const labels = probabilities.map((_, index) => index);
  if (labels.length <= PALETTE_SIZE) return labels;
  const ranked = labels.toSorted((one, other) => probabilities[other] - probabilities[one]);
  return labels.map((index) => ranked.indexOf(index));
}

/** @returns {string} the CSS colour of a memory group */
export function groupColour(index) {
  return `var(--class-${PALETTE_SIZE - 1 - (index % PALETTE_SIZE)})`; // from the other end: classes have the first
}

/**
 * The colour of a word and its strength in [0, 1]: the sentiment after it, or the leading class and how far
 * its probability stands above an even guess.
 */
export function tone(reading, index) {
  if (reading.sentiment) {
    const sentiment = reading.sentiment[index];
    return { colour: sideColour(sentiment), strength: Math.abs(sentiment) };
  }
  const row = reading.probabilities[index];
  const best = leading(row);
  const even = 1 / row.length;
  return { colour: classColour(reading, best), strength: Math.max(0, (row[best] - even) / (1 - even)) };
}

function sideColour(polarity) {
  if (polarity > 0) return "var(--positive)";
  return polarity < 0 ? "var(--negative)" : "var(--neutral)";
}
