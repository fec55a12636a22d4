/** What is drawn over the words: the sentiment or the classes, forgetting rates, and what each half says. */

import { percent, signed } from "./dom.js";
import { HALVES, classColour, groupColour, leading } from "./reading.js";

/**
 * @typedef {object} Chart
 * @property {{values: number[], colour: string, lead: boolean}[]} series a value per word; the last is on top
 * @property {{value: number, label: string, border: string}[]} levels lines across it, from the lowest value to the highest
 * @property {boolean} filled whether what lies between the curve and 0 is tinted
 * @property {boolean[] | null} skipped words whose dots are hollow
 * @property {(index: number) => string} describe a word's values, to be read out
 */

const SHARES = [0, 0.5, 1].map((value) => ({ value, label: percent(value).replace(".0", ""), border: "" }));
const SENTIMENTS = signedLevels(1);
const LEAST_WEIGHT = 0.01; // the least that the page writes: what it calls 0.00 must not look large

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

/** @returns {Chart | null} a curve per memory group, for a model that tells its forgetting rates */
export function forgettingChart(reading) {
  const rates = reading.forgettingRates;
  if (!rates) return null;
  const describe = (index) => `${describePlace(reading, index)}: ${rates[index].map(percent).join(", ")} forgotten`;
  return { series: groupSeries(rates), levels: SHARES, filled: false, skipped: null, describe };
}

/** @returns {Chart | null} a curve per half, for a model of fast and slow units */
export function halvesChart(reading) {
  const weights = reading.halfWeights;
  if (!weights) return null;
  const largest = weights.flat().reduce((most, weight) => Math.max(most, Math.abs(weight)), LEAST_WEIGHT);
  const describe = (index) => {
    const parts = weights[index].map((weight, half) => `${HALVES[half]} ${signed(weight)}`);
    return `${describePlace(reading, index)}: ${parts.join(", ")}`;
  };
  return { series: groupSeries(weights), levels: signedLevels(largest), filled: false, skipped: null, describe };
}

/** A curve per column of what has a row per word. */
function groupSeries(rows) {
  return rows[0].map((_, group) => ({
    values: rows.map((row) => row[group]),
    colour: groupColour(group),
    lead: false,
  }));
}

function signedLevels(largest) {
  return [-largest, 0, largest].map((value) => ({
    value,
    label: signed(value).replace(".00", ""),
    border: value === 0 ? "border" : "",
  }));
}

function describeAnswer(reading, index) {
  const best = leading(reading.probabilities[index]);
  const state = reading.skipped?.[index] ? "skipped; " : "";
  const probability = percent(reading.probabilities[index][best]);
  return `${describePlace(reading, index)}: ${state}${reading.labels[best]} ${probability}`;
}

function describePlace(reading, index) {
  return `word ${index + 1}, ${reading.tokens[index]}`;
}
