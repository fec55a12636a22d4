"""Reads a request's body, never more than the limit."""

from __future__ import annotations

from starlette.requests import Request

from app.errors import BodyTooLarge


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The whole body, declared or streamed.

    Raises:
        BodyTooLarge: it has more than ``most_bytes``; what follows is not read.
        starlette.requests.ClientDisconnect: the client left before its end.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most_bytes:
        raise _too_large(most_bytes)
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most_bytes:
            raise _too_large(most_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(most_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"Expected at most {most_bytes} bytes. Send the documents in parts.")
