from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.app.conftest import Classify
from tests.app.tiny import LONGEST

PROBLEM = "application/problem+json"


def assert_problem(response: httpx.Response, status: int, slug: str, detail: str = "") -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == PROBLEM
    body = response.json()
    assert body["type"] == f"/problems/{slug}"
    assert body["status"] == status
    assert re.search(detail, body["detail"]), body["detail"]


def test_one_document_is_answered_as_documented(classify: Classify) -> None:
    text = "It was NOT a good film !"
    body = classify(text, model="reviews").json()
    assert (body["object"], body["model"], body["labels"]) == ("list", "reviews@1", ["negative", "positive"])
    assert body["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    (found,) = body["data"]
    assert found["label"] == body["labels"][int(np.argmax(found["probs"]))]
    assert found["score"] == max(found["probs"])
    assert found["num_classes"] == 2
    assert found["truncated"] is False
    assert sum(found["probs"]) == pytest.approx(1, abs=1e-6)


def test_steps_end_at_the_answer_and_slice_the_text(classify: Classify) -> None:
    text = "It was NOT a good film, é\U0001f600 or dull"
    (found,) = classify(text, model="reviews").json()["data"]
    steps = found["steps"]
    assert steps["probs"][-1] == found["probs"]
    assert [text[start:end] for start, end in steps["offsets"]] == steps["tokens"]
    assert steps["tokens"][:3] == ["It", "was", "NOT"]
    assert all(-1 <= value <= 1 for value in steps["sentiment"])
    assert len(steps["sentiment"]) == len(steps["probs"]) == len(steps["tokens"])
    assert steps["causal"] is True


def test_causal_steps_are_the_answers_for_the_words_so_far(classify: Classify) -> None:
    words = ["a", "good", "film", "not", "dull"]
    prefixes = [" ".join(words[: count + 1]) for count in range(len(words))]
    data = classify(prefixes, model="reviews").json()["data"]
    assert [one["probs"] for one in data] == data[-1]["steps"]["probs"]


def test_model_gives_what_it_can_and_invents_nothing(classify: Classify) -> None:
    (reviews,) = classify("good film", model="reviews").json()["data"]
    (topics,) = classify("good film", model="topics").json()["data"]
    assert "skip_map" not in reviews
    assert reviews["groups"] == {"sizes": [5, 3], "periods": [1, 2], "updates": [2, 1]}
    assert "groups" not in topics
    assert "sentiment" not in topics["steps"]
    skipped = topics["skip_map"]["skipped"]
    assert topics["skip_map"]["skip_rate"] == sum(skipped) / len(skipped)
    keep = topics["skip_map"]["keep_probability"]
    assert [probability < 0.5 for probability in keep] == skipped


def test_summary_replaces_the_arrays(classify: Classify) -> None:
    (found,) = classify("good bad good bad", model="topics", explain="summary").json()["data"]
    assert "steps" not in found
    assert set(found["summary"]) == {"turning_points", "moved_most"}
    assert set(found["skip_map"]) == {"skip_rate"}


def test_none_explains_nothing(classify: Classify) -> None:
    (found,) = classify("good film", model="topics", explain="none").json()["data"]
    assert set(found) == {"index", "label", "score", "probs", "num_classes", "truncated"}


def test_top_k_and_raw_scores_are_added(classify: Classify) -> None:
    (found,) = classify("good film", model="topics", top_k=2, raw_scores=True).json()["data"]
    ranked = sorted(found["probs"], reverse=True)
    assert [one["score"] for one in found["top"]] == ranked[:2]
    assert found["top"][0]["label"] == found["label"]
    shifted = np.exp(np.array(found["raw_scores"]) - max(found["raw_scores"]))
    np.testing.assert_allclose(shifted / shifted.sum(), found["probs"], atol=1e-6)


def test_order_and_answers_do_not_depend_on_the_company(classify: Classify) -> None:
    texts = [f"good film {'bad ' * (index * 3)}" for index in range(40)]
    together = classify(texts, model="topics").json()["data"]
    assert [one["index"] for one in together] == list(range(40))
    for index in (0, 17, 39):
        (alone,) = classify(texts[index], model="topics").json()["data"]
        assert alone == {**together[index], "index": 0}


def test_failed_document_carries_its_problem_beside_the_others(classify: Classify) -> None:
    response = classify(["good", " \n", "bad\0"], model="reviews")
    assert response.status_code == 200
    good, empty, other = response.json()["data"]
    assert good["label"]
    assert other["label"]
    assert empty == {
        "index": 1,
        "error": {
            "type": "/problems/empty-document",
            "title": "The document has no words",
            "status": 422,
            "detail": "Expected at least one word, got none.",
        },
    }


def test_where_all_fail_the_first_problem_is_the_answer(classify: Classify) -> None:
    assert_problem(classify(["", " "]), 422, "empty-document")


def test_long_document_is_refused_or_cut_as_asked(classify: Classify) -> None:
    text = "good " * 33_000
    assert_problem(classify(text), 422, "document-too-long", "has 33000 tokens; expected at most 32768")
    (cut,) = classify(text, truncate="right").json()["data"]
    assert cut["truncated"] is True
    assert len(cut["steps"]["tokens"]) == 32_768 < LONGEST


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "Expected a JSON object: EOF"),
        (b"{", "Expected a JSON object: EOF"),
        (b"\xff\xfe", "Expected a JSON object"),
        (b'{"input": "\\ud83d"}', "Expected a JSON object: .*surrogate"),
        (b"[]", "Field 'body': .*got a list"),
        (b"{}", "field 'input' is missing"),
        (b'{"input": []}', "'input': List should have at least 1 item"),
        (b'{"input": 5}', "'input': a string or a list of strings, got 5"),
        (b'{"input": ["a", null]}', r"'input\.1': .*valid string, got None"),
        (b'{"input": {"secret": 1}}', "'input': a string or a list of strings, got an object"),
        (b'{"input": "a", "inputs": "b"}', "Unknown field 'inputs'; expected some of input, model"),
        (b'{"input": "a", "explain": "all"}', "'explain': .*'steps', 'summary' or 'none', got a string"),
        (b'{"input": "a", "top_k": 0}', "'top_k': .*greater than or equal to 1, got 0"),
        (b'{"input": "a", "top_k": "3"}', "'top_k': .*valid integer, got a string"),
        (b'{"input": "a", "deadline_ms": 0}', "'deadline_ms'"),
        (b'{"input": "a", "truncate": true}', "'truncate': .*got True"),
    ],
)
def test_wrong_body_is_told_what_was_expected(client: httpx.Client, body: bytes, detail: str) -> None:
    assert_problem(client.post("/classify", content=body), 422, "invalid-request", detail)


def test_too_many_documents_are_refused(classify: Classify) -> None:
    detail = "at most 256 documents, got 257"
    assert_problem(classify(["good"] * 257), 413, "too-many-documents", detail)


def test_request_beyond_the_whole_queue_is_refused(classify: Classify) -> None:
    assert_problem(classify(["good " * 20_000] * 60), 413, "request-too-large", "1200000 tokens")


@pytest.mark.parametrize("declared", [True, False])
def test_large_body_is_refused_before_it_is_read(client: httpx.Client, declared: bool) -> None:
    size = 9 * 2**20

    def chunks() -> Iterator[bytes]:
        for _ in range(9):
            yield b" " * 2**20

    headers = {"content-length": str(size)} if declared else {}
    response = client.post("/classify", content=chunks(), headers=headers)
    assert_problem(response, 413, "body-too-large", "at most 8388608 bytes")


def test_unknown_model_lists_the_known(classify: Classify) -> None:
    assert_problem(classify("good", model="x" * 500), 404, "unknown-model", "one of reviews, topics")


def test_deadline_that_cannot_be_met_is_504(classify: Classify) -> None:
    assert_problem(classify("good " * 30_000, deadline_ms=1), 504, "deadline-exceeded")


@pytest.mark.parametrize(
    ("header", "body"), [("1", {}), ("1", {"deadline_ms": 9000}), ("9000", {"deadline_ms": 1})]
)
def test_least_of_the_deadlines_counts(client: httpx.Client, header: str, body: dict[str, int]) -> None:
    request = {"input": "good " * 30_000, "explain": "none", **body}
    response = client.post("/classify", json=request, headers={"x-request-deadline-ms": header})
    assert_problem(response, 504, "deadline-exceeded")


@pytest.mark.parametrize(
    "header",
    ["", "0", "-5", "1e3", "٣", "3600001", "9" * 5000, "1" + "9" * 20]
    + [f"0000000001{rest}" for rest in ("9", "0" * 5000, "9" * 400)],
)
def test_wrong_deadline_header_is_told_what_was_expected(client: httpx.Client, header: str) -> None:
    response = client.post(
        "/classify", json={"input": "good"}, headers=[(b"x-request-deadline-ms", header.encode())]
    )
    assert_problem(response, 422, "invalid-request", "milliseconds from 1 to 3600000")


def test_timing_header_has_every_stage(classify: Classify) -> None:
    header = classify("good film").headers["server-timing"]
    stages = dict(re.findall(r"(\w+);dur=([0-9.]+)", header))
    assert set(stages) == {"tokenize", "queue", "run", "encode"}
    assert all(float(milliseconds) >= 0 for milliseconds in stages.values())


def test_large_numbers_of_steps_are_valid_json(classify: Classify) -> None:
    response = classify("good bad " * 3000, model="topics")
    body = json.loads(response.content)
    assert len(body["data"][0]["steps"]["probs"]) == 6000
