"""API keys: who may ask for what, and how many tokens.

A key is ``rt_ID_SECRET``. The file holds its id and the SHA-256 of the whole: the secret has 256 random bits,
so nobody can guess it from the hash, and a slow hash would only slow every request (docs/decisions).
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.errors import QuotaExceeded, StartError

Scope = Literal["classify", "admin"]
_PREFIX = "rt"


class Key(BaseModel):
    """What the service knows of a key: not the key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)]
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None


class _KeyFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: tuple[Key, ...] = ()


class Quota:
    """A bucket of tokens that fills up within a minute.

    A request is let in while anything is left, and charged in the same turn of the event loop with all its tokens: the
    bucket may go below zero by one request, however many come at once; the next waits until that is made up for. No
    request is too large for it.
    """

    def __init__(self, tokens_per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(tokens_per_minute)
        self._clock = clock
        # Together: metrics look at them from another thread.
        self._left_at = (self._most, clock())

    @property
    def left(self) -> float:
        """Tokens that may be read now; below zero after a request that was larger than what was left."""
        return self._left(self._clock())

    def check(self) -> None:
        """Let a request in.

        Raises:
            QuotaExceeded: nothing is left.
        """
        left = self.left
        if left <= 0:
            retry_after_seconds = math.floor(-left * 60 / self._most) + 1
            raise QuotaExceeded(f"Expected at most {self._most:.0f} tokens a minute.", retry_after_seconds)

    def charge(self, tokens: int) -> None:
        """Take out what a request that was let in has read."""
        now_seconds = self._clock()
        self._left_at = (self._left(now_seconds) - tokens, now_seconds)

    def _left(self, now_seconds: float) -> float:
        left, at_seconds = self._left_at
        return min(self._most, left + (now_seconds - at_seconds) * self._most / 60)


class Caller:
    """Who sent a request: a key, with what is left of its quota."""

    def __init__(self, key: Key, clock: Callable[[], float] = time.monotonic) -> None:
        self.key = key
        self.quota = None if key.tokens_per_minute is None else Quota(key.tokens_per_minute, clock)


class KeyRing:
    """The keys of a file."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._callers: Mapping[str, Caller] = {key.id: Caller(key) for key in keys}

    @property
    def callers(self) -> Iterable[Caller]:
        """Everyone who may ask."""
        return self._callers.values()

    def find(self, key: str) -> Caller | None:
        """The caller whose key this is, None where nobody's is."""
        _, id_, _ = key.split("_", 2) if key.count("_") >= 2 else ("", "", "")
        caller = self._callers.get(id_)
        expected = _NOBODY if caller is None else caller.key.sha256
        return caller if hmac.compare_digest(_sha256(key), expected) else None

    def replace(self, keys: Iterable[Key]) -> None:
        """Take the keys of a file that was written anew; unchanged ones keep what is left of their quota."""
        old = self._callers
        self._callers = {
            key.id: old[key.id] if key.id in old and old[key.id].key == key else Caller(key) for key in keys
        }


def make_key(name: str, scopes: Sequence[str], tokens_per_minute: int | None) -> tuple[str, Key]:
    """A new key, and what to keep of it.

    Raises:
        StartError: name, scopes or quota are impossible.
    """
    id_ = secrets.token_hex(4)
    text = f"{_PREFIX}_{id_}_{secrets.token_urlsafe(32)}"
    try:
        return text, Key.model_validate(
            {
                "id": id_,
                "name": name,
                "sha256": _sha256(text),
                "scopes": scopes,
                "tokens_per_minute": tokens_per_minute,
            }
        )
    except ValidationError as error:
        raise StartError(_explain(error)) from error


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys of a file.

    Raises:
        StartError: it cannot be read, or is no file of keys.
    """
    try:
        keys = _KeyFile.model_validate_json(path.read_bytes()).keys
    except OSError as error:
        raise StartError(
            f"{path}: cannot be read: {error.strerror}; `readtrace keys new` makes one"
        ) from error
    except ValidationError as error:
        raise StartError(f"{path}: {_explain(error)}") from error
    for what in ("id", "name"):
        if len({getattr(key, what) for key in keys}) < len(keys):
            raise StartError(f"{path}: two keys have the same {what}")
    return keys


def write_keys(path: Path, keys: Iterable[Key]) -> None:
    """Write a file of keys, whole or not at all, for its owner's eyes only.

    Raises:
        StartError: it cannot be written.
    """
    text = _KeyFile(keys=tuple(keys)).model_dump_json(indent=2) + "\n"
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StartError(f"{path}: cannot be written: {error.strerror}") from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _explain(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(part) for part in first['loc']) or 'keys'}: {first['msg']}"


_NOBODY = _sha256("")  # compared with where no key has the id, so that this takes as long
