"""The last check before a model may answer: its golden documents, read as any other document is."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from app.bundle import BundleError
from app.engine.model import Model
from app.manifest import GoldenDocument
from app.scheduler.batch import assemble
from app.scheduler.document import Array, Document
from app.scheduler.segments import cut
from app.text.tokens import tokenize


def check_golden(model: Model) -> None:
    """Read every golden document alone and compare.

    Raises:
        BundleError: an answer is further away than the manifest's tolerance, or other words were skipped.
    """
    for number, golden in enumerate(model.manifest.golden):
        compare(model, number, golden, read_alone(model, golden.text))


def compare(model: Model, number: int, golden: GoldenDocument, steps: Mapping[str, Array]) -> None:
    """Compare what was read with what the manifest expects.

    Raises:
        BundleError: they differ.
    """
    answer = steps["probabilities"][-1]
    difference = float(np.abs(answer - np.asarray(golden.probabilities)).max())
    if not difference <= model.manifest.golden_tolerance:
        raise BundleError(
            f"{model.id}: golden document {number} differs by {difference:.2e}; "
            f"expected at most {model.manifest.golden_tolerance:.2e}"
        )
    if golden.skipped is not None and tuple(steps["skipped"].tolist()) != golden.skipped:
        raise BundleError(f"{model.id}: golden document {number} skips other words than expected")


def read_alone(model: Model, text: str, rows: int = 2) -> Mapping[str, Array]:
    """Read one text without a queue, in the same segments and with the same arrays as the scheduler.

    Args:
        model: who reads.
        text: the document.
        rows: of each run; one may be summed in another order than several (calibration.py).

    Returns:
        Steps and results by name.
    """
    token_ids = tokenize(
        model.tokenizer, text, model.manifest.longest_document, "error", model.places
    ).token_ids
    document = Document(
        model=model,
        token_ids=token_ids,
        segments=cut(model.manifest, len(token_ids)),
        arrived_seconds=0,
        deadline_seconds=math.inf,
    )
    while not document.finished:
        outputs = model.run(document.segment.reading.name, assemble([document], rows))
        if not document.accept(outputs, row=0):
            raise BundleError(f"{model.id}: a golden document is answered with what is no number")
    reading = document.reading(0)
    assert reading is not None  # it is finished
    return {**reading.steps, **reading.results}
