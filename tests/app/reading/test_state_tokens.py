from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.registry import LoadedModel, Registry
from app.errors import ExpiredState, InvalidState, OtherModelState, StartError
from app.reading.continuation import BEGINNING, Continuation
from app.reading.state_tokens import StateTokens, read_state_key

KEY = bytes(range(32))


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def model(registry: Registry) -> LoadedModel:
    return registry.find("reviews")


def some(model: LoadedModel) -> Continuation:
    states = {
        spec.name: np.arange(spec.values, dtype=spec.dtype) / 7 for spec in model.manifest.passes[0].states
    }
    return Continuation(19, states, np.array([3, 1, 4], np.int64), np.array([0.2, 0.8], np.float32))


def written(tokens: StateTokens, model: LoadedModel, continuation: Continuation) -> str:
    token = tokens.write(model, continuation)
    assert token is not None
    return token


def test_token_gives_back_what_it_was_written_of(model: LoadedModel) -> None:
    tokens, continuation = StateTokens(KEY, 60), some(model)
    signed = tokens.read(written(tokens, model, continuation))
    read = signed.of(model)
    assert (signed.model_id, read.words, read.tail.tolist()) == ("reviews@1", 19, [3, 1, 4])
    assert read.tail.dtype == np.int64
    np.testing.assert_array_equal(read.probabilities, continuation.probabilities)
    assert read.states.keys() == continuation.states.keys()
    for name, state in continuation.states.items():
        np.testing.assert_array_equal(read.states[name], state.astype(np.float32))


def test_token_of_another_format_is_refused(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = StateTokens(KEY, 60)
    monkeypatch.setattr("app.reading.state_tokens._FORMAT", 99)
    token = written(tokens, model, some(model))
    tokens.read(token)
    monkeypatch.undo()
    with pytest.raises(InvalidState):
        tokens.read(token)


def test_state_of_a_beginning_is_zeros(model: LoadedModel) -> None:
    tokens = StateTokens(KEY, 60)
    read = tokens.read(written(tokens, model, BEGINNING)).of(model)
    assert all(not state.any() for state in read.states.values())
    assert read.probabilities is None


def test_changed_token_is_refused(model: LoadedModel) -> None:
    tokens = StateTokens(KEY, 60)
    token = written(tokens, model, some(model))

    @given(place=st.integers(0, len(token) - 1), character=st.sampled_from("AZaz09-_+=. é"))
    def check(place: int, character: str) -> None:
        changed = token[:place] + character + token[place + 1 :]
        if changed != token:
            with pytest.raises(InvalidState):
                tokens.read(changed)

    check()


@given(
    st.text(max_size=300)
    | st.binary(max_size=300).map(lambda noise: base64.urlsafe_b64encode(noise).decode())
)
def test_noise_is_refused(noise: str) -> None:
    with pytest.raises(InvalidState):
        StateTokens(KEY, 60).read(noise)


def test_token_of_another_key_is_refused(model: LoadedModel) -> None:
    token = written(StateTokens(read_state_key(None), 60), model, some(model))
    with pytest.raises(InvalidState):
        StateTokens(read_state_key(None), 60).read(token)


def test_token_expires(model: LoadedModel) -> None:
    clock = Clock()
    tokens = StateTokens(KEY, 60, clock)
    token = written(tokens, model, some(model))
    clock.now += 59
    tokens.read(token)
    clock.now += 1
    with pytest.raises(ExpiredState, match="good for 60 s"):
        tokens.read(token)


def test_token_is_for_one_bundle(registry: Registry, model: LoadedModel) -> None:
    tokens = StateTokens(KEY, 60)
    signed = tokens.read(written(tokens, model, some(model)))
    with pytest.raises(OtherModelState, match=r"is of reviews@1; expected one of topics@1"):
        signed.of(registry.find("topics"))
    with pytest.raises(OtherModelState, match="another bundle of that version"):
        signed.of(replace(model, manifest_sha256="0" * 64))


def test_states_beyond_the_limit_have_no_token(model: LoadedModel) -> None:
    first = model.manifest.passes[0]
    large = first.model_copy(update={"states": (first.states[0].model_copy(update={"shape": (2**19,)}),)})
    manifest = model.manifest.model_copy(update={"passes": (large,)})
    assert StateTokens(KEY, 60).write(replace(model, manifest=manifest), BEGINNING) is None


def test_key_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(StartError, match="cannot be read"):
        read_state_key(path)
    path.write_bytes(b"short\n")
    with pytest.raises(StartError, match="expected at least 32 bytes, found 5"):
        read_state_key(path)
    path.write_bytes(b"k" * 32 + b"\n")
    assert read_state_key(path) == b"k" * 32
