"""The published form: the Open Inference Protocol's REST specification, version 2."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from tritonclient.http import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from tests.app.conftest import Classify
from tests.service import Server

TEXTS = ["good film", "market loss é\U0001f600"]


@pytest.fixture
def theirs(server: Server) -> Iterator[InferenceServerClient]:
    client = InferenceServerClient(server.url.removeprefix("http://"))
    yield client
    client.close()


def text_input(binary: bool, texts: list[str] = TEXTS) -> InferInput:
    tensor = InferInput("text", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() for text in texts], object), binary_data=binary)
    return tensor


def test_their_client_sees_a_live_server(theirs: InferenceServerClient) -> None:
    assert theirs.is_server_live()
    assert theirs.is_server_ready()
    assert theirs.get_server_metadata()["name"] == "readtrace"
    assert theirs.is_model_ready("topics")
    assert theirs.is_model_ready("topics", "1")
    assert not theirs.is_model_ready("topics", "2")
    found = theirs.get_model_metadata("topics", "1")
    assert found["versions"] == ["1"]
    assert found["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert [one["shape"] for one in found["outputs"]] == [[-1, 3], [-1]]


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("version", ["", "1"])
def test_their_client_infers(
    theirs: InferenceServerClient, classify: Classify, binary: bool, version: str
) -> None:
    ours = classify(TEXTS, model="topics").json()["data"]
    found = theirs.infer("topics", [text_input(binary)], model_version=version, request_id="seven")
    np.testing.assert_array_equal(
        found.as_numpy("probabilities"), np.array([one["probs"] for one in ours], np.float32)
    )
    assert found.as_numpy("label").tolist() == [one["label"] for one in ours]
    assert found.get_response()["id"] == "seven"
    assert (found.get_response()["model_name"], found.get_response()["model_version"]) == ("topics", "1")


def test_only_the_outputs_that_are_wanted_come(theirs: InferenceServerClient) -> None:
    wanted = [InferRequestedOutput("label", binary_data=False)]
    found = theirs.infer("topics", [text_input(True)], outputs=wanted)
    assert [one["name"] for one in found.get_response()["outputs"]] == ["label"]


def test_their_client_is_told_what_was_wrong(theirs: InferenceServerClient) -> None:
    with pytest.raises(InferenceServerException, match="one of reviews, topics"):
        theirs.infer("nobody", [text_input(True)])
    with pytest.raises(InferenceServerException, match="Expected at least one word"):
        theirs.infer("topics", [text_input(False, [" "])])


def tensor(**fields: object) -> dict[str, object]:
    return {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"], **fields}]}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (tensor(shape=[2]), r"expected 2 texts"),
        (tensor(shape=[0]), "greater than or equal to 1"),
        (tensor(shape=[2**30] * 8), f"expected {2**240} texts"),
        (tensor(shape=[2**31]), "less than 2147483648"),
        (tensor(datatype="FP32"), "'BYTES'"),
        (tensor(name="input"), "'text'"),
        (tensor(data=None), "data' is missing"),
        (tensor(parameters={"binary_data_size": 5}), "expected 0, got 5"),
        ({"inputs": []}, "at least 1 item"),
        ({**tensor(), "outputs": [{"name": "logits"}]}, "'probabilities' or 'label'"),
    ],
)
def test_wrong_body_is_refused_in_its_form(client: httpx.Client, body: object, detail: str) -> None:
    response = client.post("/v2/models/topics/infer", json=body)
    assert response.status_code == 422, response.text
    assert set(response.json()) == {"error"}
    assert detail in response.json()["error"]


@pytest.mark.parametrize(
    ("raw", "length", "detail"),
    [
        (b"\1\0\0", None, "four bytes of length"),
        (b"\xff\0\0\0a", None, "expected 255 bytes of a text, got 1"),
        (b"\1\0\0\0\xff", None, "expected UTF-8"),
        (b"", "99999", "got 99999"),
        (b"", "x", "got a string"),
        (b"", "0" * 5000 + "1", "got a string"),
    ],
)
def test_wrong_bytes_after_the_json_are_refused(
    client: httpx.Client, raw: bytes, length: str | None, detail: str
) -> None:
    json = b'{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":%d}}]}'
    json %= len(raw)
    headers = {"inference-header-content-length": length or str(len(json))}
    response = client.post("/v2/models/topics/infer", content=json + raw, headers=headers)
    assert response.status_code == 422
    assert detail in response.json()["error"]


def test_an_output_that_is_named_often_comes_once(client: httpx.Client) -> None:
    outputs = [{"name": name} for name in ("label", "probabilities", "label")]
    response = client.post("/v2/models/topics/infer", json={**tensor(), "outputs": outputs})
    assert [output["name"] for output in response.json()["outputs"]] == ["label", "probabilities"]


def test_nested_data_is_flattened(client: httpx.Client) -> None:
    response = client.post("/v2/models/topics/infer", json=tensor(shape=[2, 1], data=[["good"], ["bad"]]))
    assert response.json()["outputs"][0]["shape"] == [2, 3]
