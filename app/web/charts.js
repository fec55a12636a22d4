/** What is drawn over the words: the sentiment or the classes, and the forgetting rates of memory groups. */

import { percent, signed } from "./dom.js";
import { classColour, groupColour, leading, wordAt } from "./reading.js";

/**
 * @typedef {object} Chart
 * @property {{values: number[], colour: string, lead: boolean}[]} series a value per word; the last is on top
 * @property {{value: number, label: string, border: string}[]} levels lines across it, from the lowest value to 1
 * @property {boolean} filled whether what lies between the curve and 0 is tinted
 * @property {boolean[] | null} skipped words whose dots are hollow
 * @property {(index: number) => string} describe a word's values, to be read out
 */

const SHARES = [0, 0.5, 1].map((value) => ({ value, label: percent(value).replace(".0", ""), border: "" }));
const SENTIMENTS = [-1, 0, 1].map((value) => ({
  value,
  label: signed(value).replace(".00", ""),
  border: value === 0 ? "border" : "",
}));

/** @returns {Chart} the sentiment with its border at 0, or one curve per class, which filled would hide each other */
export function answerChart(reading) {
  const describe = (index) => describeAnswer(reading, index);
  if (reading.sentiment) {
    const series = [{ values: reading.sentiment, colour: "url(#sides)", lead: true }];
    return { series, levels: SENTIMENTS, filled: true, skipped: reading.skipped, describe };
  }
  const winner = leading(reading.probabilities.at(-1));
  const series = reading.labels.map((_, label) => ({
    values: reading.probabilities.map((row) => row[label]),
    colour: classColour(reading, label),
    lead: label === winner,
  }));
  series.sort((a, b) => a.lead - b.lead);
  return { series, levels: SHARES, filled: false, skipped: reading.skipped, describe };
}

/** @returns {Chart} a curve per memory group, for a model that tells its forgetting rates */
export function forgettingChart(reading) {
  const rates = reading.forgettingRates;
  const series = rates[0].map((_, group) => ({
    values: rates.map((row) => row[group]),
    colour: groupColour(group),
    lead: false,
  }));
  const describe = (index) => `${describePlace(reading, index)}: ${rates[index].map(percent).join(", ")} forgotten`;
  return { series, levels: SHARES, filled: false, skipped: null, describe };
}

function describeAnswer(reading, index) {
  const best = leading(reading.probabilities[index]);
  const state = reading.skipped?.[index] ? "skipped; " : "";
  const probability = percent(reading.probabilities[index][best]);
  return `${describePlace(reading, index)}: ${state}${reading.labels[best]} ${probability}`;
}

function describePlace(reading, index) {
  return `word ${index + 1}, ${wordAt(reading, index)}`;
}
