"""Tiny bundles, built here with fixed random weights: real graphs, real tokenizers, no training.

``write_reviews`` writes a one-pass LSTM with polarity and memory groups, ``write_topics`` a model of two
passes: a backward LSTM that writes a feature per word, and a forward LSTM that skips words by it;
``write_phrases`` writes a model that pools features of every two neighbouring words; ``write_memories`` an LSTM that
tells forgetting rates, skims, and attends; ``write_halves`` an LSTM of fast and slow units, whose tokenizer adds a
token; ``write_fragile`` an LSTM that cannot read two of its words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from app.bundle import CARD, MANIFEST, file_sha256
from app.manifest import (
    TOKENIZER,
    GoldenDocument,
    GroupSpec,
    HalfSpec,
    Manifest,
    PassSpec,
    TensorSpec,
    TraceSpec,
    Training,
    WindowSpec,
)

BUCKETS = (4, 8, 16)
LONGEST = 40_000
GOLDEN_TEXTS = ("A good film !", "bad " * 37 + "end")
WORDS = "a the is it was not film movie good bad great dull market team score win loss stocks space end . , !"
START = "[START]"  # what the tokenizer of `write_halves` adds
VOID = "void"  # what `write_fragile` answers with no number
FATAL = "fatal"  # what makes its graph raise
_HIDDEN = 8
_EMBEDDING = 6
_AHEAD = 3
_WINDOW = WindowSpec(words=2, features=_HIDDEN)
_OPSET = 20

Array = NDArray[np.generic]


class _Graph:
    """Collects the nodes and weights of a graph."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)

    def add(self, op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))
        return outputs[0]

    def constant(self, name: str, value: NDArray[np.generic]) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.constant(name, self._random.normal(0, 0.7, shape).astype(np.float32))

    def embed(self, words: int = len(WORDS.split()) + 2) -> str:
        self.weight("embedding", words, _EMBEDDING)
        return self.add("Gather", ["embedding", "token_ids"], ["embedded"])  # (rows, length, embedding)

    def lstm(self, prefix: str, words: str, inputs: int, direction: str) -> str:
        """Read ``words`` (rows, length, inputs); write the states and return (rows, length, hidden)."""
        self.weight("W", 1, 4 * _HIDDEN, inputs)
        self.weight("R", 1, 4 * _HIDDEN, _HIDDEN)
        self.weight("B", 1, 8 * _HIDDEN)
        self.constant("axis0", np.array([0], np.int64))
        self.constant("axis1", np.array([1], np.int64))
        self.add("Transpose", [words], ["by_time"], perm=[1, 0, 2])
        self.add("Cast", ["lengths"], ["lengths32"], to=TensorProto.INT32)
        for state in ("h", "c"):
            self.add("Unsqueeze", [f"{prefix}{state}", "axis0"], [f"{state}0"])
        self.add(
            "LSTM",
            ["by_time", "W", "R", "B", "lengths32", "h0", "c0"],
            ["Y", "Y_h", "Y_c"],
            hidden_size=_HIDDEN,
            direction=direction,
        )
        for state in ("h", "c"):
            self.add("Squeeze", [f"Y_{state}", "axis0"], [f"{prefix}{state}_next"])
        self.add("Squeeze", ["Y", "axis1"], ["outputs"])
        return self.add("Transpose", ["outputs"], ["hidden"], perm=[1, 0, 2])

    def dense(self, values: str, inputs: int, outputs: int, name: str) -> str:
        self.weight(f"{name}_weight", inputs, outputs)
        return self.add("MatMul", [values, f"{name}_weight"], [name])

    def classify(self, hidden: str, classes: int) -> None:
        self.dense(hidden, _HIDDEN, classes, "logits")
        self.add("Softmax", ["logits"], ["probabilities"], axis=-1)

    def save(self, path: Path, reading: PassSpec, reads: tuple[TensorSpec, ...] = ()) -> None:
        def info(name: str, spec: TensorSpec, *leading: str) -> onnx.ValueInfoProto:
            dtype = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}[
                spec.dtype
            ]
            return helper.make_tensor_value_info(name, dtype, [*leading, *spec.shape])

        ids = TensorSpec(name="ids", dtype="int64")
        inputs = [info("token_ids", ids, "rows", "length"), info("lengths", ids, "rows")]
        inputs += [info(spec.name, spec, "rows", "length") for spec in reads]
        inputs += [info(spec.name, spec, "rows") for spec in reading.states]
        outputs = [info(f"{spec.name}_next", spec, "rows") for spec in reading.states]
        outputs += [info(spec.name, spec, "rows", "length") for spec in reading.steps]
        outputs += [info(spec.name, spec, "rows") for spec in reading.results]
        graph = helper.make_graph(self.nodes, reading.name, inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=10)
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString())


def _states(prefix: str) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name=f"{prefix}{state}", shape=(_HIDDEN,)) for state in ("h", "c"))


def _answer(classes: int) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name=name, shape=(classes,)) for name in ("logits", "probabilities"))


def tokenizer(**more: int) -> Tokenizer:
    """Words and punctuation, lower-cased; id 0 is padding, id 1 the unknown word; `more` words have the ids given."""
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", *WORDS.split()])}
    result = Tokenizer(models.WordLevel(vocabulary | more, unk_token="[UNK]"))
    result.normalizer = normalizers.Lowercase()
    result.pre_tokenizer = pre_tokenizers.Whitespace()
    return result


def write_reviews(root: Path, name: str = "reviews", version: str = "1", seed: int = 1) -> Path:
    """Write the one-pass bundle and return its folder."""
    folder = _folder(root, name, version)
    reading = PassSpec(name="read", graph="read.onnx", states=_states(""), steps=_answer(2))
    graph = _Graph(seed)
    graph.classify(graph.lstm("", graph.embed(), _EMBEDDING, "forward"), 2)
    graph.save(folder / reading.graph, reading)
    return _finish(
        folder,
        (reading,),
        architecture="mt-lstm",
        labels=("negative", "positive"),
        polarity=(-1.0, 1.0),
        trace=TraceSpec(causal=True, meaning="The answer for the words so far."),
        groups=(GroupSpec(size=5, period=1), GroupSpec(size=3, period=2)),
    )


def write_topics(root: Path, name: str = "topics", version: str = "1", seed: int = 2) -> Path:
    """Write the two-pass bundle with a skip map and return its folder."""
    folder = _folder(root, name, version)
    ahead = TensorSpec(name="ahead", shape=(_AHEAD,))
    look = PassSpec(
        name="look", graph="look.onnx", direction="backward", states=_states("back_"), steps=(ahead,)
    )
    graph = _Graph(seed)
    graph.dense(graph.lstm("back_", graph.embed(), _EMBEDDING, "reverse"), _HIDDEN, _AHEAD, "ahead")
    graph.save(folder / look.graph, look)
    steps = (
        *_answer(3),
        TensorSpec(name="keep_probability"),
        TensorSpec(name="skipped", dtype="bool"),
    )
    read = PassSpec(name="read", graph="read.onnx", reads=("ahead",), states=_states(""), steps=steps)
    _skipping_graph(seed + 1).save(folder / read.graph, read, reads=(ahead,))
    return _finish(
        folder,
        (look, read),
        architecture="leap-lstm",
        labels=("business", "sports", "science"),
        trace=TraceSpec(
            causal=False, meaning="The state after each word; what is skipped depends on later ones."
        ),
    )


def write_phrases(root: Path, name: str = "phrases", version: str = "1", seed: int = 4) -> Path:
    """Write the bundle of two-word windows and return its folder."""
    folder = _folder(root, name, version)
    pooled = (
        TensorSpec(name="largest", shape=(_HIDDEN,)),
        TensorSpec(name="at", dtype="int64", shape=(_HIDDEN,)),
    )
    reading = PassSpec(
        name="read",
        graph="read.onnx",
        states=(
            TensorSpec(name="previous", dtype="int64", shape=(1,)),
            TensorSpec(name="before", dtype="int64"),
            *pooled,
        ),
        steps=_answer(2),
        results=(
            TensorSpec(name="last_word", dtype="int64", shape=(_HIDDEN,)),
            TensorSpec(name="feature_weight", shape=(_HIDDEN,)),
        ),
    )
    _pooling_graph(seed).save(folder / reading.graph, reading)
    return _finish(
        folder,
        (reading,),
        architecture="text_cnn",
        labels=("question", "statement"),
        trace=TraceSpec(causal=True, meaning="The answer for the words so far."),
        windows=(_WINDOW,),
    )


def write_memories(root: Path, name: str = "memories", version: str = "1", seed: int = 5) -> Path:
    """Write the bundle that forgets, skims and attends, and return its folder."""
    folder = _folder(root, name, version)
    hops = (1,)
    reading = PassSpec(
        name="read",
        graph="read.onnx",
        states=(*_states(""), TensorSpec(name="total", shape=hops)),
        steps=(
            *_answer(2),
            TensorSpec(name="forgetting_rates", shape=(2,)),
            TensorSpec(name="read_probability"),
            TensorSpec(name="skimmed", dtype="bool"),
            TensorSpec(name="attention_score", shape=hops),
        ),
        results=tuple(TensorSpec(name=f"attention_{name}", shape=hops) for name in ("largest", "sum")),
    )
    _telling_graph(seed).save(folder / reading.graph, reading)
    return _finish(
        folder,
        (reading,),
        architecture="clstm",
        labels=("negative", "positive"),
        polarity=(-1.0, 1.0),
        trace=TraceSpec(causal=True, meaning="The answer for the words so far."),
    )


def write_halves(root: Path, name: str = "halves", version: str = "1", seed: int = 7) -> Path:
    """Write the bundle of fast and slow units, half of the LSTM's each, and return its folder."""
    folder = _folder(root, name, version)
    half_logits = TensorSpec(name="half_logits", shape=(2, 3))
    reading = PassSpec(name="read", graph="read.onnx", states=_states(""), steps=(*_answer(3), half_logits))
    start = len(WORDS.split()) + 2
    _halved_graph(seed, words=start + 1).save(folder / reading.graph, reading)
    cutter = tokenizer(**{START: start})
    cutter.add_special_tokens([START])
    cutter.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, start)]
    )
    units = _HIDDEN // 2
    return _finish(
        folder,
        (reading,),
        cutter,
        architecture="hl_mtgru",
        labels=("business", "sports", "science"),
        trace=TraceSpec(causal=True, meaning="The answer for the words so far."),
        halves=(HalfSpec(units=units, tau=1.25), HalfSpec(units=units, tau=4.0)),
    )


def write_fragile(root: Path, name: str = "fragile", version: str = "1", seed: int = 6) -> Path:
    """Write the bundle that cannot read two of its words, and return its folder.

    ``VOID`` makes the answer no number. ``FATAL`` is a word of the tokenizer that the embedding lacks, as when the two
    come from different trainings: the graph raises, whatever else is in the batch.
    """
    folder = _folder(root, name, version)
    reading = PassSpec(name="read", graph="read.onnx", states=_states(""), steps=_answer(2))
    void, words = (
        len(WORDS.split()) + 2,
        len(WORDS.split()) + 4,
    )  # as many as the tokenizer has, that calibration passes
    graph = _Graph(seed)
    graph.weight("embedding", words, _EMBEDDING)
    noise = np.zeros((words, 1), np.float32)
    noise[void] = np.nan
    graph.constant("noise", noise)
    graph.add("Gather", ["embedding", "token_ids"], ["embedded"])
    hidden = graph.lstm("", "embedded", _EMBEDDING, "forward")
    graph.add("Gather", ["noise", "token_ids"], ["word_noise"])
    graph.add("Add", [graph.dense(hidden, _HIDDEN, 2, "sums"), "word_noise"], ["logits"])
    graph.add("Softmax", ["logits"], ["probabilities"], axis=-1)
    graph.save(folder / reading.graph, reading)
    return _finish(
        folder,
        (reading,),
        tokenizer(**{VOID: void, FATAL: 1000}),
        architecture="lstm",
        labels=("negative", "positive"),
        polarity=(-1.0, 1.0),
        trace=TraceSpec(causal=True, meaning="The answer for the words so far."),
    )


def _telling_graph(seed: int) -> _Graph:
    """An LSTM whose states also give rates, a decision and a score; 1 stands for the largest, which none is above."""
    graph = _Graph(seed)
    hidden = graph.lstm("", graph.embed(), _EMBEDDING, "forward")
    graph.classify(hidden, 2)
    graph.constant("axis_last", np.array([-1], np.int64))
    graph.constant("half", np.array(0.5, np.float32))
    graph.constant("one", np.array(1, np.float32))
    graph.constant("nothing", np.array(0, np.float32))
    graph.constant("first", np.array(0, np.int64))
    graph.constant("step", np.array(1, np.int64))
    graph.add("Sigmoid", [graph.dense(hidden, _HIDDEN, 2, "rate_sums")], ["forgetting_rates"])
    graph.add("Squeeze", [graph.dense(hidden, _HIDDEN, 1, "decision"), "axis_last"], ["decision_row"])
    graph.add("Sigmoid", ["decision_row"], ["read_probability"])
    graph.add("Less", ["read_probability", "half"], ["skimmed"])
    graph.add("Sigmoid", [graph.dense(hidden, _HIDDEN, 1, "score_sums")], ["attention_score"])
    graph.add("Sub", ["attention_score", "one"], ["below_largest"])
    graph.add("Exp", ["below_largest"], ["shares"])
    graph.add("Shape", ["token_ids"], ["length"], start=1, end=2)
    graph.add("Squeeze", ["length"], ["length_scalar"])
    graph.add("Range", ["first", "length_scalar", "step"], ["words"])
    graph.add("Unsqueeze", ["lengths", "axis1"], ["limits"])
    graph.add("Less", ["words", "limits"], ["real"])
    graph.add("Unsqueeze", ["real", "axis_last"], ["real_shares"])
    graph.add("Where", ["real_shares", "shares", "nothing"], ["shares_found"])
    graph.add("ReduceSum", ["shares_found", "axis1"], ["here"], keepdims=0)
    graph.add("Add", ["total", "here"], ["total_next"])
    graph.add("Identity", ["total_next"], ["attention_sum"])
    graph.add("Mul", ["total", "nothing"], ["none"])
    graph.add("Add", ["none", "one"], ["attention_largest"])
    return graph


def _halved_graph(seed: int, words: int) -> _Graph:
    """An LSTM whose units say their part of the logits by halves, beside the bias."""
    graph, units = _Graph(seed), _HIDDEN // 2
    hidden = graph.lstm("", graph.embed(words), _EMBEDDING, "forward")
    graph.constant("axis2", np.array([2], np.int64))
    graph.add("Split", [hidden], ["fast", "slow"], axis=2, num_outputs=2)
    for half in ("fast", "slow"):
        graph.add("Unsqueeze", [graph.dense(half, units, 3, f"{half}_sums"), "axis2"], [f"{half}_part"])
    graph.add("Concat", ["fast_part", "slow_part"], ["half_logits"], axis=2)  # (rows, length, 2, classes)
    graph.weight("bias", 3)
    graph.add("ReduceSum", ["half_logits", "axis2"], ["said"], keepdims=0)
    graph.add("Add", ["said", "bias"], ["logits"])
    graph.add("Softmax", ["logits"], ["probabilities"], axis=-1)
    return graph


def _pooling_graph(seed: int) -> _Graph:
    """Features are above zero, so that the state's zeros are below every one of them."""
    graph = _Graph(seed)
    for number in (-1, 0, 1, 2):
        graph.constant(f"at_{number}", np.array([number], np.int64))
    graph.constant("zero", np.array(0, np.int64))
    graph.constant("one", np.array(1, np.int64))
    graph.constant("nothing", np.array(0, np.float32))
    graph.weight("embedding", len(WORDS.split()) + 2, _EMBEDDING)
    graph.add("Concat", ["previous", "token_ids"], ["ids"], axis=1)
    graph.add("Slice", ["ids", "at_-1", "far", "at_1"], ["previous_next"])
    graph.constant("far", np.array([1 << 40], np.int64))
    graph.add("Gather", ["embedding", "ids"], ["embedded"])
    graph.add("Slice", ["embedded", "at_0", "at_-1", "at_1"], ["first"])
    graph.add("Slice", ["embedded", "at_1", "far", "at_1"], ["second"])
    graph.add("Concat", ["first", "second"], ["windows"], axis=2)
    graph.add("Sigmoid", [graph.dense("windows", 2 * _EMBEDDING, _HIDDEN, "sums")], ["features"])
    graph.add("Shape", ["token_ids"], ["length"], start=1, end=2)
    graph.add("Squeeze", ["length"], ["length_scalar"])
    graph.add("Range", ["zero", "length_scalar", "one"], ["words"])
    graph.add("Unsqueeze", ["lengths", "at_1"], ["limits"])
    graph.add("Less", ["words", "limits"], ["real"])
    graph.add("Unsqueeze", ["real", "at_2"], ["real_features"])
    graph.add("Where", ["real_features", "features", "nothing"], ["found"])  # (rows, length, features)
    graph.add("Unsqueeze", ["words", "at_1"], ["until"])
    graph.add("LessOrEqual", ["words", "until"], ["earlier"])
    graph.add("Unsqueeze", ["earlier", "at_2"], ["earlier_features"])
    graph.add("Unsqueeze", ["found", "at_1"], ["found_wide"])
    graph.add("Where", ["earlier_features", "found_wide", "nothing"], ["so_far"])  # (rows, length, length, …)
    graph.add("ReduceMax", ["so_far", "at_2"], ["here"], keepdims=0)
    graph.add("Unsqueeze", ["largest", "at_1"], ["largest_wide"])
    graph.add("Max", ["here", "largest_wide"], ["running"])
    graph.classify("running", 2)
    graph.add("ReduceMax", ["found", "at_1"], ["best"], keepdims=0)
    graph.add("Max", ["best", "largest"], ["largest_next"])
    graph.add("ArgMax", ["found"], ["place"], axis=1, keepdims=0)
    graph.add("Unsqueeze", ["before", "at_1"], ["words_before"])
    graph.add("Add", ["place", "words_before"], ["place_in_text"])
    graph.add("Greater", ["best", "largest"], ["better"])
    graph.add("Where", ["better", "place_in_text", "at"], ["last_word"])
    graph.add("Identity", ["last_word"], ["at_next"])
    graph.add("Add", ["before", "lengths"], ["before_next"])
    graph.add("Identity", ["largest_next"], ["feature_weight"])
    return graph


def _skipping_graph(seed: int) -> _Graph:
    graph = _Graph(seed)
    embedded = graph.embed()
    graph.dense("ahead", _AHEAD, 1, "ahead_score")
    graph.dense(embedded, _EMBEDDING, 1, "word_score")
    keep = graph.add("Add", ["ahead_score", "word_score"], ["keep_score"])
    graph.constant("axis_last", np.array([-1], np.int64))
    graph.constant("half", np.array(0.5, np.float32))
    graph.add("Squeeze", [keep, "axis_last"], ["keep_logit"])
    graph.add("Sigmoid", ["keep_logit"], ["keep_probability"])
    graph.add("Less", ["keep_probability", "half"], ["skipped"])
    graph.add("Not", ["skipped"], ["kept"])
    graph.add("Cast", ["kept"], ["kept_float"], to=TensorProto.FLOAT)
    graph.add("Unsqueeze", ["kept_float", "axis_last"], ["kept_column"])
    words = graph.add("Mul", [embedded, "kept_column"], ["kept_words"])
    graph.classify(graph.lstm("", words, _EMBEDDING, "forward"), 3)
    return graph


def _folder(root: Path, name: str, version: str) -> Path:
    folder = root / name / version
    folder.mkdir(parents=True)
    return folder


def _finish(
    folder: Path, passes: tuple[PassSpec, ...], cutter: Tokenizer | None = None, **described: Any
) -> Path:
    (cutter or tokenizer()).save(str(folder / TOKENIZER))
    (folder / CARD).write_text(f"# {folder.parent.name}\n\nRandom weights, for tests.\n", encoding="utf-8")
    manifest = Manifest(
        name=folder.parent.name,
        version=folder.name,
        sizes={"hidden": _HIDDEN, "embedding": _EMBEDDING},
        passes=passes,
        length_buckets=BUCKETS,
        longest_document=LONGEST,
        opset=_OPSET,
        training=Training(data="none", terms="none", recipe="random weights", seed=0, metrics={}),
        golden=tuple(_golden(folder, passes, text) for text in GOLDEN_TEXTS),
        golden_tolerance=1e-6,
        sha256={path.name: file_sha256(path) for path in folder.iterdir()},
        **described,
    )
    (folder / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return folder


def _golden(folder: Path, passes: tuple[PassSpec, ...], text: str) -> GoldenDocument:
    token_ids = Tokenizer.from_file(str(folder / TOKENIZER)).encode(text).ids
    steps = read_whole(folder, passes, np.array(token_ids, np.int64))
    skipped = tuple(bool(value) for value in steps["skipped"]) if "skipped" in steps else None
    answer = tuple(float(value) for value in steps["probabilities"][-1])
    return GoldenDocument(text=text, probabilities=answer, skipped=skipped)


def read_whole(folder: Path, passes: tuple[PassSpec, ...], token_ids: NDArray[np.int64]) -> dict[str, Array]:
    """Read a document in one segment as long as itself: the plain reading that every other one must equal."""
    written: dict[str, Array] = {}
    for reading in passes:
        session = ort.InferenceSession(str(folder / reading.graph), providers=["CPUExecutionProvider"])
        feed: dict[str, Array] = {
            "token_ids": np.stack([token_ids, token_ids]),
            "lengths": np.full(2, len(token_ids), np.int64),
        }
        feed |= {name: np.stack([written[name]] * 2) for name in reading.reads}
        feed |= {spec.name: np.zeros((2, *spec.shape), spec.dtype) for spec in reading.states}
        names = [spec.name for spec in (*reading.steps, *reading.results)]
        written |= {name: array[0] for name, array in zip(names, session.run(names, feed), strict=True)}
    return written


def rewrite_manifest(folder: Path, **changes: object) -> None:
    """Change fields of a written manifest and bring its hashes up to date, as a wrong exporter would."""
    manifest = Manifest.model_validate_json((folder / MANIFEST).read_bytes())
    hashes = {name: file_sha256(folder / name) for name in manifest.sha256}
    changed = manifest.model_dump(mode="json") | {"sha256": hashes} | changes
    (folder / MANIFEST).write_text(Manifest.model_validate(changed).model_dump_json(), encoding="utf-8")


def make_endless(folder: Path) -> None:
    """Change the graph of a bundle of one pass so that no run of it ends; it opens like any other."""
    path = folder / "read.onnx"
    model = onnx.load(path)
    scalars = (("turn", TensorProto.INT64), ("more", TensorProto.BOOL), ("sum", TensorProto.FLOAT))
    turn, more, total = (helper.make_tensor_value_info(name, kind, []) for name, kind in scalars)
    more_next, total_next = (
        helper.make_tensor_value_info(f"{name}_next", kind, []) for name, kind in scalars[1:]
    )
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["more"], ["more_next"]),
            helper.make_node("Add", ["sum", "sum"], ["sum_next"]),
        ],
        "body",
        [turn, more, total],
        [more_next, total_next],
    )
    for name, value in (
        ("turns", np.array(2**62, np.int64)),
        ("true", np.array(True)),
        ("zero", np.float32(0)),
    ):
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    softmax = next(node for node in model.graph.node if node.op_type == "Softmax")
    answer = softmax.output[0]
    softmax.output[0] = "ended"
    model.graph.node.append(helper.make_node("Loop", ["turns", "true", "zero"], ["looped"], body=body))
    model.graph.node.append(helper.make_node("Add", ["ended", "looped"], [answer]))
    path.write_bytes(model.SerializeToString())
    rewrite_manifest(folder)


def write_all(root: Path) -> Path:
    """Write the first two bundles below ``root`` and return it."""
    write_reviews(root)
    write_topics(root)
    return root
