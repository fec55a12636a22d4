/** The page: what is pasted goes to the service, and its reading is shown. */

import { showAnswer, showFacts, showLegend, showReadout } from "./answer_view.js";
import { answerChart, forgettingChart, halvesChart } from "./charts.js";
import { CurveView } from "./curve_view.js";
import { DocumentView } from "./document_view.js";
import { count, element } from "./dom.js";
import { EvidenceView } from "./evidence_view.js";
import { examplesFor } from "./examples.js";
import { makeReading } from "./reading.js";
import { Problem, classify, listModels, useKey } from "./service.js";

const byId = (id) => document.getElementById(id);
const documentView = new DocumentView(byId("document"), (index) => select(index));
const selectAndReveal = (index) => {
  select(index);
  documentView.reveal();
};
const curveView = new CurveView(byId("curve"), selectAndReveal);
const memoryViews = [
  { figure: byId("forgetting"), view: new CurveView(byId("forgetting-curve"), selectAndReveal), makeChart: forgettingChart },
  { figure: byId("halves"), view: new CurveView(byId("halves-curve"), selectAndReveal), makeChart: halvesChart },
];
const evidenceView = new EvidenceView(byId("evidence"), (entry) => {
  documentView.highlight(entry);
  if (entry) selectAndReveal(entry.last);
});
const ARCHITECTURES = {
  lstm: "LSTM",
  mtlstm: "MT-LSTM",
  leap_lstm: "Leap-LSTM",
  skip_lstm: "Skip LSTM",
  skim_lstm: "Skim-LSTM",
  lstm_jump: "LSTM-Jump",
  cifg_lstm: "CIFG-LSTM",
  clstm: "CLSTM",
  mode_lstm: "MODE-LSTM",
  ode_lstm: "ODE-LSTM",
  dlstm: "DLSTM",
  text_cnn: "TextCNN",
  c_lstm: "C-LSTM",
  self_attentive_lstm: "self-attentive LSTM",
  rnn: "RNN",
  gru: "GRU",
  mtgru: "MTGRU",
  hl_mtgru: "HL-MTGRU",
  encoder: "pretrained encoder",
  bag_of_words: "bag of words",
};
const PATIENCE_MS = 1000;
let models = [];
let reading = null;
let running = null; // AbortController of the request under way
let slow = 0; // the timer after which a request can be given up
let listing = 0; // the number of the newest question for the models; older answers come too late

function select(index) {
  documentView.select(index);
  curveView.select(index);
  for (const { figure, view } of memoryViews) if (!figure.hidden) view.select(index);
  showReadout(reading, index);
}

function chosenModel() {
  return models.find((model) => model.id === byId("model").value);
}

async function submit(truncate = "error") {
  const text = byId("text").value;
  const model = chosenModel();
  if (!model) return;
  running?.abort();
  const request = new AbortController();
  running = request;
  setBusy(true);
  try {
    const { answer, labels, timing } = await classify(text, model.id, truncate, request.signal);
    if (answer.error) throw new Problem(answer.error.title, answer.error.detail, answer.error);
    reading = makeReading(text, answer, labels, model);
    showResult(answer, model, timing);
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error.status === 404) await loadModels().catch(() => {}); // what is offered is no more what is served
    showProblem(error);
  }
  if (running === request) setBusy(false);
}

function showResult(answer, model, timing) {
  byId("problem").hidden = true;
  byId("welcome").hidden = true;
  byId("stale").hidden = true;
  byId("result").hidden = false;
  showAnswer(reading, answer, model.id);
  showFacts(reading, answer, timing);
  showLegend(reading, model.explains.trace);
  documentView.show(reading);
  curveView.show(answerChart(reading));
  for (const { figure, view, makeChart } of memoryViews) {
    const chart = makeChart(reading);
    figure.hidden = !chart;
    if (chart) view.show(chart);
  }
  evidenceView.show(reading);
  select(reading.spans.length - 1);
  bringIntoView(byId("result"));
  byId("status").textContent = `${answer.label}, after ${count(reading.spans.length, "word")}`;
}

/** Show what went wrong in place of a result: an old result beside a new text would mislead. */
function showProblem(error) {
  if (!(error instanceof Problem)) {
    console.error(error);
    error = new Problem("The page could not show the answer", error.message);
  }
  const parts = [element("h2", "", error.title)];
  if (error.detail) parts.push(element("p", "", error.detail));
  if (error.retryAfterSeconds) {
    parts.push(element("p", "", `Try again in ${count(error.retryAfterSeconds, "second")}.`));
  }
  if (error.asksForKey) parts.push(element("p", "", "Enter a key of this service under “API key”."));
  else if (!models.length) parts.push(makeAction("Try again", retry));
  if (error.is("document-too-long")) parts.push(makeAction("Read only its beginning", () => submit("right")));
  const context = [error.status && `Status ${error.status}`, error.requestId && `request ${error.requestId}`];
  parts.push(element("p", "note", context.filter(Boolean).join(" · ")));
  byId("problem").replaceChildren(...parts);
  byId("problem").hidden = false;
  byId("welcome").hidden = true;
  byId("result").hidden = true;
  byId("stale").hidden = true;
  byId("status").textContent = "";
  bringIntoView(byId("problem"));
  if (error.asksForKey) askForKey();
}

function makeAction(name, act) {
  const button = element("button", "chip", name);
  button.type = "button";
  button.addEventListener("click", act);
  return element("p", "", button);
}

function retry() {
  loadModels().then(dismissProblem, showProblem);
}

function dismissProblem() {
  if (byId("problem").hidden) return;
  byId("problem").hidden = true;
  byId("welcome").hidden = false;
}

/** Say that the result is of what stood there before. */
function markStale() {
  byId("stale").hidden = byId("result").hidden;
}

function askForKey() {
  byId("key-field").open = true;
  byId("key").select();
}

async function enterKey() {
  useKey(byId("key").value);
  await loadModels();
  byId("key-field").open = false;
  byId("text").focus();
  dismissProblem();
}

/** On a narrow screen the result stands below the form, out of sight. */
function bringIntoView(node) {
  if (node.getBoundingClientRect().top > window.innerHeight * 0.8) node.scrollIntoView({ block: "start" });
}

function setBusy(busy) {
  clearTimeout(slow);
  if (busy) slow = setTimeout(() => (byId("stop").hidden = false), PATIENCE_MS);
  else byId("stop").hidden = true;
  byId("classify").textContent = busy ? "Reading…" : "Classify";
  document.querySelector(".output").setAttribute("aria-busy", busy);
}

async function loadModels() {
  const mine = ++listing;
  let found = []; // those of another key would be offered in vain
  let failure = null;
  try {
    found = await listModels();
  } catch (error) {
    failure = error;
  }
  if (mine !== listing) return;
  models = found;
  offerModels();
  if (failure) throw failure;
  if (!chosenModel()) {
    const refused = models.some((model) => model.state === "refused");
    throw new Problem("No model is ready", refused ? "The service refused every model it found." : "The service has none.");
  }
  changeModel();
}

function offerModels() {
  const ready = models.filter((model) => model.state === "ready");
  const chosen = history.state?.model; // also where the page is come back to
  const options = ready.map((model) => new Option(model.id, model.id, model.default, model.default));
  byId("model").replaceChildren(...(ready.length ? options : [new Option("None")]));
  if (ready.some((model) => model.id === chosen)) byId("model").value = chosen;
  byId("model").disabled = byId("classify").disabled = ready.length === 0;
  showRefused(models.filter((model) => model.reason));
}

function showRefused(refused) {
  const details = byId("refused");
  details.hidden = refused.length === 0;
  details.querySelector("summary").textContent = `${count(refused.length, "model")} refused`;
  const reasons = refused.map(({ id, state, reason }) => {
    return element("li", "", state === "ready" ? `${id}: the one loaded before answers; ${reason}` : `${id}: ${reason}`);
  });
  details.querySelector("ul").replaceChildren(...reasons);
}

function changeModel() {
  const model = chosenModel();
  const architecture = ARCHITECTURES[model.architecture] ?? model.architecture;
  byId("model-note").textContent = `${architecture} · ${model.labels.join(", ")}`;
  const examples = examplesFor(model);
  byId("examples").querySelector(".chips").replaceChildren(...examples.map(makeExample));
  byId("examples").hidden = examples.length === 0;
}

function makeExample([title, text]) {
  const chip = element("button", "chip", title);
  chip.type = "button";
  chip.addEventListener("click", () => {
    byId("text").value = text;
    submit();
  });
  return chip;
}

byId("compose").addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) submit();
});
byId("stop").addEventListener("click", () => {
  running?.abort();
  setBusy(false);
  byId("text").focus();
});
byId("text").addEventListener("input", markStale);
byId("model").addEventListener("change", () => {
  history.replaceState({ model: byId("model").value }, "");
  changeModel();
  markStale();
});
byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  enterKey().catch(showProblem);
});
loadModels().catch(showProblem);
