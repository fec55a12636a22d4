"""How many values a body may have, found out before any is made."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from app.api import body as bodies
from app.api.body import MOST_VALUES, check_values
from app.api.dialects.hugging_face import InferenceRequest
from app.api.dialects.moderations import ModerationRequest
from app.api.dialects.open_inference import InferenceRequest as TensorRequest
from app.api.dialects.tei import PredictRequest
from app.api.schema import ClassifyRequest, parse_body, parse_request
from app.errors import InvalidRequest
from tests.app.api.test_classify import assert_problem
from tests.service import Server
from tests.wire import post, send

FEW = 6
MANY = MOST_VALUES + 1
BODY_BYTES = 8 * 2**20
MOST_MEMORY_BYTES = 150 * 2**20  # several copies of a body; four million errors took gigabytes

TEXTS = st.text(st.sampled_from('ab",[]{}\\:\n'), max_size=12) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=15,
)


def values(whole: Any) -> int:
    """Of all lists and objects; an empty one counts for one."""
    if not isinstance(whole, list | dict):
        return 0
    inner = list(whole.values()) if isinstance(whole, dict) else whole
    return max(1, len(inner)) + sum(map(values, inner))


@given(whole=VALUES, ascii_only=st.booleans(), indent=st.sampled_from([None, 1]))
def test_body_is_refused_for_its_values_and_never_for_its_texts(
    whole: Any, ascii_only: bool, indent: int | None
) -> None:
    body = json.dumps(whole, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bodies, "MOST_VALUES", FEW)
        if values(whole) > FEW:
            with pytest.raises(InvalidRequest, match=f"at most {FEW} values"):
                check_values(body)
        else:
            check_values(body)


@given(st.binary() | st.text(st.sampled_from('",[{\\a')).map(str.encode))
def test_whatever_comes_is_read_or_refused(body: bytes) -> None:
    with suppress(InvalidRequest):
        assert parse_request(body).input == json.loads(body)["input"]


def test_long_text_may_hold_whatever_marks(tmp_path: Path) -> None:
    text = 'a, "b", [c] {d} \\ ' * 20_000
    assert parse_request(json.dumps({"input": text}).encode()).texts == [text]


@pytest.mark.parametrize("wrong", ["1", "null", "[]", "{}", '""', '["a","b","c"]', '{"a":1}'])
@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (ClassifyRequest, '{"input":['),
        (InferenceRequest, '{"inputs":['),
        (ModerationRequest, '{"input":['),
        (PredictRequest, '{"inputs":['),
        (TensorRequest, '{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":['),
    ],
)
def test_too_many_values_are_refused_by_every_dialect(
    schema: type[BaseModel], place: str, wrong: str
) -> None:
    body = (place + ",".join([wrong] * MANY)).encode()
    with pytest.raises(InvalidRequest, match=f"at most {MOST_VALUES} values in the body, got at least"):
        parse_body(schema, body)


def test_many_wrong_texts_are_one_error() -> None:
    with pytest.raises(InvalidRequest, match=r"Field 'input.0': .*, got 1"):
        parse_request(json.dumps({"input": [1] * (MOST_VALUES // 2)}).encode())


def test_thousands_of_unknown_fields_are_counted_only() -> None:
    fields = {f"unknown{number}": 1 for number in range(5000)}
    with pytest.raises(
        InvalidRequest, match=r"Expected some of input, model, .*; 5000 fields are wrong or unknown"
    ):
        parse_request(json.dumps({"input": "good", **fields}).encode())


@pytest.mark.parametrize("value", [b"1", b"[]", b'""'])
def test_full_body_of_small_values_costs_no_memory(server: Server, value: bytes) -> None:
    start, end = b'{"input":[', b"]}"
    count = (BODY_BYTES - len(start) - len(end) + 1) // (len(value) + 1)
    before = peak_bytes(server)
    answer = send(server, post(start + b",".join([value] * count) + end))
    assert answer.status == 422, answer
    assert json.loads(answer.body)["type"] == "/problems/invalid-request"
    assert peak_bytes(server) - before < MOST_MEMORY_BYTES
    with server.client() as client:
        assert_problem(client.post("/classify", json={"input": ["a"] * 257}), 413, "too-many-documents")


def peak_bytes(server: Server) -> int:
    """The most memory that the server's process ever held."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024
