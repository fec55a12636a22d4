from __future__ import annotations

import httpx
import numpy as np
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError

from tests.app.conftest import Classify
from tests.service import Server


@pytest.fixture
def theirs(server: Server) -> InferenceClient:
    return InferenceClient(model=f"{server.url}/models/topics", token="none")


def test_their_client_gets_its_labels(theirs: InferenceClient, classify: Classify) -> None:
    (ours,) = classify("good film", model="topics").json()["data"]
    found = theirs.text_classification("good film")
    assert [one.score for one in found] == sorted(ours["probs"], reverse=True)
    assert found[0].label == ours["label"]
    assert len(theirs.text_classification("good film", top_k=1)) == 1


def test_functions_make_scores_of_logits(theirs: InferenceClient) -> None:
    logits = {one.label: one.score for one in theirs.text_classification("good", function_to_apply="none")}
    sigmoid = {
        one.label: one.score for one in theirs.text_classification("good", function_to_apply="sigmoid")
    }
    assert sigmoid == pytest.approx({label: 1 / (1 + np.exp(-value)) for label, value in logits.items()})


def test_their_client_is_told_what_was_wrong(theirs: InferenceClient) -> None:
    with pytest.raises(HfHubHTTPError, match="Expected at least one word"):
        theirs.text_classification("")


def test_root_is_the_default_model_and_takes_several(client: httpx.Client, classify: Classify) -> None:
    found = client.post(
        "/", json={"inputs": ["good film", "bad"], "options": {"wait_for_model": True}}
    ).json()
    ours = classify(["good film", "bad"]).json()["data"]
    assert [one[0]["label"] for one in found] == [one["label"] for one in ours]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"inputs": {"text": "a"}}, "a string or a list of strings"),
        ({"inputs": []}, "at least 1 item"),
        ({"inputs": "a", "parameters": {"top_k": 0}}, "greater than or equal to 1"),
        ({"inputs": "a", "parameters": {"function_to_apply": "tanh"}}, "'softmax', 'sigmoid' or 'none'"),
        ({"input": "a"}, "'inputs' is missing"),
    ],
)
def test_wrong_body_is_refused_in_its_form(client: httpx.Client, body: object, detail: str) -> None:
    response = client.post("/", json=body)
    assert response.status_code == 422
    assert set(response.json()) == {"error"}
    assert detail in response.json()["error"]


def test_unknown_model_is_not_found(client: httpx.Client) -> None:
    response = client.post("/models/nobody", json={"inputs": "a"})
    assert response.status_code == 404
    assert "one of reviews, topics" in response.json()["error"]
