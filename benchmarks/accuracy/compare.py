"""What others reach on the same files: the comparisons that the cards of the shipped bundles show.

    python benchmarks/accuracy/compare.py --root FOLDER_OF_DATA

fits TF-IDF + logistic regression and fastText (`pip install fasttext`) on each set's training file as given, with
the settings below, and rewrites `NAME.json` beside this file. Accuracies of runs and papers that
are in a file already stay. TF-IDF's settings were raised once, from scikit-learn's defaults to those below, because
the defaults did worse on every set: a comparison must be a strong one.

`--run NAME LABEL RUN_FOLDER` adds a run's evaluations (`readtrace evaluate`) instead.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
from pathlib import Path
from typing import TypedDict

HERE = Path(__file__).parent
SETS = {"sst2": "sst2", "imdb": "imdb", "ag-news": "ag_news", "trec": "trec"}
_WORDS = re.compile(r"\w+|[^\w\s]")

Rows = list[tuple[str, int]]


class Entry(TypedDict):
    """One line of a card's table."""

    name: str
    dev_accuracy: float | None
    test_accuracy: float | None
    source: str


def read(path: Path) -> Rows:
    """Texts and labels of a gzipped JSON Lines file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [(row["text"], row["label"]) for row in map(json.loads, file)]


def tfidf(train: Rows, dev: Rows, test: Rows) -> Entry:
    """Words and pairs of words with sublinear counts, logistic regression with C = 10."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True), LogisticRegression(C=10, max_iter=1000)
    )
    model.fit([text for text, _ in train], [label for _, label in train])
    scores = [
        float(model.score([text for text, _ in rows], [label for _, label in rows])) for rows in (dev, test)
    ]
    return Entry(
        name="TF-IDF + logistic regression",
        dev_accuracy=scores[0],
        test_accuracy=scores[1],
        source="measured here",
    )


def fasttext(train: Rows, dev: Rows, test: Rows) -> Entry:
    """fastText: words and pairs of words, 10 dimensions, 10 epochs, learning rate 0.5."""
    from fasttext import train_supervised

    def line(text: str, label: int) -> str:
        return f"__label__{label} {' '.join(_WORDS.findall(text.lower()))}"

    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, rows in (("train", train), ("dev", dev), ("test", test)):
            paths.append(Path(folder) / name)
            paths[-1].write_text("\n".join(line(*row) for row in rows), encoding="utf-8")
        model = train_supervised(
            str(paths[0]), dim=10, epoch=10, lr=0.5, wordNgrams=2, minCount=1, thread=1, seed=1, verbose=0
        )
        scores = [model.test(str(path))[1] for path in paths[1:]]
    return Entry(name="fastText", dev_accuracy=scores[0], test_accuracy=scores[1], source="measured here")


def run_entry(label: str, run: Path) -> Entry:
    """A run's accuracies, from what `readtrace evaluate --name dev` and `--name test` left in its folder."""
    scores = {
        split: json.loads((run / f"evaluation-{split}.json").read_text(encoding="utf-8"))["accuracy"]
        for split in ("dev", "test")
    }
    return Entry(name=label, dev_accuracy=scores["dev"], test_accuracy=scores["test"], source="measured here")


def keep(name: str, entries: list[Entry]) -> None:
    """Replace the entries of the same names in a comparison file, and print them."""
    path = HERE / f"{name}.json"
    old: list[Entry] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    new_names = {entry["name"] for entry in entries}
    kept = [*entries, *(entry for entry in old if entry["name"] not in new_names)]
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for entry in entries:
        print(name, entry)


def main() -> None:
    """Measure the quick models on every set, or add one run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(), help="folder that holds data/")
    parser.add_argument("--run", nargs=3, metavar=("NAME", "LABEL", "RUN_FOLDER"))
    options = parser.parse_args()
    if options.run:
        name, label, run = options.run
        keep(name, [run_entry(label, Path(run))])
        return
    for name, folder in SETS.items():
        splits = [
            read(options.root / "data" / folder / f"{split}.jsonl.gz") for split in ("train", "dev", "test")
        ]
        keep(name, [tfidf(*splits), fasttext(*splits)])


if __name__ == "__main__":
    main()
