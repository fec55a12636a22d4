"""The token with which a client goes on with a document: a `Continuation`, signed, for some time, for one model.

It holds numbers only, no text; but the ids of the tail's words are in it, and a state tells of what was read. It is
signed, not encrypted: who may read the document may have its token (docs/decisions).

    format, expiry (seconds since 1970), SHA-256 of the manifest, length of the model's id, words, length of the tail,
    the model's id, the tail's ids as int32, the probabilities so far as float32, the states in the manifest's order;
    HMAC-SHA256 of all this
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.engine.registry import LoadedModel
from app.errors import ExpiredState, InvalidState, OtherModelState, StartError
from app.reading.continuation import Continuation

_HEAD = struct.Struct("<BQ32sBQI")
_FORMAT = 2
_SIGNATURE_BYTES = hashlib.sha256().digest_size
_LEAST_KEY_BYTES = 32  # as many as the signature has
_MOST_BYTES = 2**20  # the states of the papers' models have some thousand


@dataclass(frozen=True, slots=True)
class SignedState:
    """A token whose signature is ours and which has not expired."""

    model_id: str
    manifest_sha256: str
    words: int
    tail: bytes
    numbers: bytes  # the probabilities, then the states

    def of(self, model: LoadedModel) -> Continuation:
        """Where ``model`` goes on.

        Raises:
            OtherModelState: another model, another version or another bundle of the same version wrote it.
        """
        if (self.model_id, self.manifest_sha256) != (model.id, model.manifest_sha256):
            other = "another bundle of that version" if self.model_id == model.id else model.id
            raise OtherModelState(
                f"The state is of {self.model_id}; expected one of {other}, which answers here."
            )
        probabilities = np.frombuffer(self.numbers, np.float32, len(model.manifest.labels))
        states = {}
        start = probabilities.nbytes
        for spec in model.manifest.passes[0].states:
            array = np.frombuffer(self.numbers, spec.dtype, spec.values, start).reshape(spec.shape)
            states[spec.name] = array
            start += array.nbytes
        tail = np.frombuffer(self.tail, np.int32).astype(np.int64)
        return Continuation(self.words, states, tail, probabilities if self.words else None)


class StateTokens:
    """Writes and reads tokens with one key."""

    def __init__(self, key: bytes, lifetime_seconds: float, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._lifetime_seconds = lifetime_seconds
        self._clock = clock

    def write(self, model: LoadedModel, continuation: Continuation) -> str | None:
        """The token; None where the model's states are too large for one."""
        arrays = [
            continuation.states.get(spec.name, np.zeros(spec.shape, spec.dtype))
            for spec in model.manifest.passes[0].states
        ]
        if sum(array.nbytes for array in arrays) > _MOST_BYTES:
            return None
        model_id = model.id.encode()
        head = _HEAD.pack(
            _FORMAT,
            int(self._clock() + self._lifetime_seconds),
            bytes.fromhex(model.manifest_sha256),
            len(model_id),
            continuation.words,
            len(continuation.tail),
        )
        tail = continuation.tail.astype(np.int32)
        probabilities = continuation.probabilities
        if probabilities is None:  # nothing was read
            probabilities = np.zeros(len(model.manifest.labels), np.float32)
        numbers = (array.tobytes() for array in (tail, probabilities, *arrays))
        signed = b"".join([head, model_id, *numbers])
        return _encode(signed + self._sign(signed))

    def read(self, token: str) -> SignedState:
        """Check a token.

        Raises:
            InvalidState: it is not one that this key signed.
            ExpiredState: it is too old.
        """
        content = _decode(token)
        signed, signature = content[:-_SIGNATURE_BYTES], content[-_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(signed)):
            raise _invalid()
        token_format, expiry, sha256, id_bytes, words, tail_words = _HEAD.unpack_from(signed)
        if token_format != _FORMAT:  # of another release with the same key
            raise _invalid()
        if self._clock() >= expiry:
            raise ExpiredState(
                f"The state was good for {self._lifetime_seconds:g} s. Send the document from its beginning."
            )
        tail_start = _HEAD.size + id_bytes
        numbers_start = tail_start + 4 * tail_words
        return SignedState(
            signed[_HEAD.size : tail_start].decode(),
            sha256.hex(),
            words,
            signed[tail_start:numbers_start],
            signed[numbers_start:],
        )

    def _sign(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")


def read_state_key(path: Path | None) -> bytes:
    """The bytes of a file of at least 32; without one a key of this process alone.

    Raises:
        StartError: it cannot be read, or is too short.
    """
    if path is None:
        return secrets.token_bytes(_LEAST_KEY_BYTES)
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise StartError(f"setting state_key: {path}: cannot be read: {error.strerror}") from error
    if len(key) < _LEAST_KEY_BYTES:
        raise StartError(
            f"setting state_key: {path}: expected at least {_LEAST_KEY_BYTES} bytes, found {len(key)}; "
            "`openssl rand -hex 32` makes some"
        )
    return key


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode(token: str) -> bytes:
    try:
        content = base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _invalid() from None
    # Spare bits at the end would let one content have several tokens.
    if len(content) < _HEAD.size + _SIGNATURE_BYTES or _encode(content) != token:
        raise _invalid()
    return content


def _invalid() -> InvalidState:
    return InvalidState(
        "Expected the state of an earlier answer, unchanged, of this service; one that started anew knows "
        "earlier states only where READTRACE_STATE_KEY names a file."
    )
