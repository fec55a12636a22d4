"""The published form: github.com/huggingface/text-embeddings-inference, router/src/http/types.rs and its README."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

from tests.app.conftest import Classify


def predict(client: httpx.Client, **fields: object) -> httpx.Response:
    return client.post("/predict", json=fields)


def test_single_text_gets_one_list_of_labels(client: httpx.Client, classify: Classify) -> None:
    (ours,) = classify("good film").json()["data"]
    found = predict(client, inputs="good film").json()
    assert predict(client, inputs=["good film"]).json() == found
    assert [set(one) for one in found] == [{"score", "label"}] * 2
    assert [one["score"] for one in found] == sorted(ours["probs"], reverse=True)
    assert found[0]["label"] == ours["label"]


def test_batch_gets_a_list_for_each(client: httpx.Client) -> None:
    found = predict(client, inputs=[["good film"], ["bad"], ["dull"]]).json()
    assert found == [predict(client, inputs=text).json() for text in ("good film", "bad", "dull")]


def test_raw_scores_are_logits(client: httpx.Client) -> None:
    probabilities = {one["label"]: one["score"] for one in predict(client, inputs="good").json()}
    logits = {one["label"]: one["score"] for one in predict(client, inputs="good", raw_scores=True).json()}
    total = sum(np.exp(value) for value in logits.values())
    assert {label: np.exp(value) / total for label, value in logits.items()} == pytest.approx(probabilities)


@pytest.mark.parametrize(
    ("inputs", "detail"),
    [
        (["a", "b"], "got a pair"),
        ([["a", "b"], ["c"]], "got a pair"),
        ([["a"], ["b", "c"]], "got a pair"),
        (["a", "b", "c"], "got 3"),
        ([["a"], []], "got 0"),
        ([], "got an empty list"),
        ([[]], "got an empty list"),
        (5, "a string or a list of strings"),
        ("", "at least one word"),
    ],
)
def test_what_is_no_single_text_is_refused_in_its_form(
    client: httpx.Client, inputs: object, detail: str
) -> None:
    response = predict(client, inputs=inputs)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/json"
    assert set(response.json()) == {"error", "error_type"}
    assert detail in response.json()["error"]
    assert response.json()["error_type"] == "Validation"


def test_long_text_is_refused_or_cut(client: httpx.Client) -> None:
    long = "good " * 33_000 + "bad"
    assert predict(client, inputs=long).status_code == 422
    right = predict(client, inputs=long, truncate=True).json()
    assert right == predict(client, inputs="good " * 32_768).json()
    left = predict(client, inputs=long, truncate=True, truncation_direction="Left").json()
    assert left == predict(client, inputs="good " * 32_767 + "bad").json()
