/** The answer and what it cost: classes with their probabilities, and the facts beside them. */

import { count, digits, element, milliseconds, percent, sentence, signed, swatch } from "./dom.js";
import { HALVES, classColour, groupColour, hasColour, leading } from "./reading.js";

/** Fill the answer card. */
export function showAnswer(reading, answer, model) {
  document.getElementById("answer-model").textContent = model;
  document.getElementById("answer-label").textContent = answer.label;
  const bars = reading.labels.map((label, index) => makeBar(reading, label, index, answer.probs[index]));
  bars[leading(answer.probs)].classList.add("winner");
  document.getElementById("classes").replaceChildren(...bars);
}

function makeBar(reading, label, index, probability) {
  const bar = swatch(classColour(reading, index), "bar");
  bar.style.setProperty("--share", probability);
  const track = element("span", "track", bar);
  return element(
    "li",
    "",
    element("span", "label", label),
    track,
    element("span", "number", percent(probability)),
  );
}

/** Fill the facts: words, skip rate, memory groups, and the time by stage. */
export function showFacts(reading, answer, timing) {
  const facts = [["Words", digits(reading.spans.length)]];
  if (answer.truncated) facts.push(["Cut off", "the rest of the text was not read"]);
  if (reading.unknown.size) facts.push(["Not in the vocabulary", describeUnknown(reading)]);
  if (reading.skipped) facts.push(["Skipped", describeSkips(reading)]);
  if (reading.skimmed) facts.push(["Skimmed", describeSkims(reading, answer)]);
  if (answer.groups) facts.push(["Updates by memory group", answer.groups.updates.map(digits).join(" · ")]);
  if (answer.forgetting) {
    facts.push(["Forgetting rate by memory group", answer.forgetting.mean_rates.map(percent).join(" · ")]);
  }
  if (answer.halves) {
    facts.push(["Said by the fast and the slow half", answer.halves.final_weights.map(signed).join(" · ")]);
  }
  facts.push(["Time in the service", describeStages(timing)]);
  facts.push(["Round trip", milliseconds(timing.roundTripMs)]);
  const rows = facts.map(([name, value]) => element("div", "", element("dt", "", name), element("dd", "", value)));
  document.getElementById("facts").replaceChildren(...rows);
}

function describeUnknown({ unknown, spans }) {
  return `${percent(unknown.size / spans.length)} (${count(unknown.size, "word")})`;
}

function describeSkips(reading) {
  const skipped = reading.skipped.filter(Boolean).length;
  return `${percent(reading.skipRate)} (${count(skipped, "word")})`;
}

function describeSkims(reading, answer) {
  const skimmed = reading.skimmed.filter(Boolean).length;
  return `${percent(answer.skim_map.skim_rate)} (${count(skimmed, "word")})`;
}

function describeStages({ stages }) {
  if (!stages.length) return "not told";
  const total = stages.reduce((sum, stage) => sum + stage.durationMs, 0);
  const parts = stages.map(({ name, durationMs }) => `${name} ${durationMs.toFixed(1)}`);
  const list = element("small", "", parts.join(" · "));
  return element("span", "", milliseconds(total), " ", list);
}

/** Show the probabilities after one word. */
export function showReadout(reading, index) {
  const head = element("p", "head", "After ", element("strong", "", reading.tokens[index]));
  if (reading.unknown.has(index)) head.append(element("span", "badge", "unknown"));
  if (reading.skipped?.[index]) head.append(element("span", "badge", "skipped"));
  if (reading.skimmed?.[index]) head.append(element("span", "badge", "skimmed"));
  const place = `word ${digits(index + 1)} of ${digits(reading.spans.length)}`;
  head.append(element("span", "place", place));
  const shares = element("p", "shares");
  if (reading.sentiment) shares.append(makeShare("sentiment", signed(reading.sentiment[index])));
  reading.labels.forEach((label, at) => {
    const probability = percent(reading.probabilities[index][at]);
    shares.append(makeShare(swatch(classColour(reading, at)), label, probability));
  });
  if (reading.keepProbability) shares.append(makeShare("keep", percent(reading.keepProbability[index])));
  if (reading.readProbability) shares.append(makeShare("read", percent(reading.readProbability[index])));
  if (reading.attention) shares.append(makeShare("attention", percent(reading.attention[index])));
  if (reading.ngramShare) shares.append(makeShare("features won here", percent(reading.ngramShare[index])));
  reading.forgettingRates?.[index].forEach((rate, group) => {
    shares.append(makeShare(swatch(groupColour(group)), `group ${group + 1} forgets`, percent(rate)));
  });
  reading.halfWeights?.[index].forEach((weight, half) => {
    shares.append(makeShare(swatch(groupColour(half)), HALVES[half], signed(weight)));
  });
  if (reading.periods) shares.append(makeGroups(reading.periods, index));
  document.getElementById("readout").replaceChildren(head, shares);
}

/** Which memory groups run at a word. */
function makeGroups(periods, index) {
  const groups = periods.map((period, group) => {
    const runs = (index + 1) % period === 0;
    const badge = element("span", runs ? "badge runs" : "badge rests", `${group + 1}`);
    if (!runs) badge.setAttribute("aria-hidden", "true");
    return badge;
  });
  return element("span", "share", periods.length > 1 ? "groups updated" : "group updated", ...groups);
}

function makeShare(...parts) {
  const value = element("span", "number", parts.pop());
  return element("span", "share", ...parts, " ", value);
}

/** Say what the colours mean, and what the values after each word mean for this model. */
export function showLegend(reading, trace) {
  const entries = reading.sentiment ? [makeScale(reading)] : makeClassEntries(reading);
  if (reading.unknown.size) {
    const meaning = " not in the vocabulary; the model reads all such words as one and the same";
    entries.push(element("li", "", element("span", "word unknown", "unknown"), meaning));
  }
  if (reading.skipped) {
    const meaning = " not read into the memory; keep is the probability that it is";
    entries.push(element("li", "", element("span", "word skipped", "skipped"), meaning));
  }
  if (reading.skimmed) {
    entries.push(element("li", "", element("span", "word skimmed", "skimmed"), " changes a few units of the memory only"));
  }
  reading.forgettingRates?.[0].forEach((_, group) => {
    const name = group === 0 ? "memory group 1, the slowest" : `memory group ${group + 1}`;
    entries.push(element("li", "", swatch(groupColour(group)), name));
  });
  reading.halfTau?.forEach((tau, half) => {
    entries.push(element("li", "", swatch(groupColour(half)), `${HALVES[half]}, τ ${tau.toFixed(2)}`));
  });
  document.getElementById("legend").replaceChildren(...entries);
  const kind = element("span", "badge", reading.causal ? "Causal" : "Not causal");
  document.getElementById("caption").replaceChildren(kind, " ", sentence(trace.meaning));
}

function makeScale({ labels, polarity, sentiment }) {
  const least = polarity ? labels[polarity.indexOf(Math.min(...polarity))] : "−1";
  const most = polarity ? labels[polarity.indexOf(Math.max(...polarity))] : "+1";
  return element("li", "scale", least, element("span", "ramp"), most);
}

function makeClassEntries(reading) {
  const own = reading.labels.flatMap((label, index) => (hasColour(reading, index) ? [[label, index]] : []));
  const entries = own.map(([label, index]) => element("li", "", swatch(classColour(reading, index)), label));
  if (own.length < reading.labels.length) entries.push(element("li", "", swatch("var(--neutral)"), "all other labels"));
  return entries;
}
