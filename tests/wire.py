"""HTTP by hand, for what no client library would send."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass

from tests.service import Server

_PATIENCE_SECONDS = 20


@dataclass(frozen=True)
class RawAnswer:
    """The first answer on a connection; status 0 where the connection ended without one."""

    status: int
    head: str
    body: bytes

    @property
    def length(self) -> int | None:
        """How long the body is, once the head tells."""
        found = re.search(r"\ncontent-length: (\d+)\r\n", self.head + "\r\n")
        return None if found is None else int(found[1])


def connect(server: Server) -> socket.socket:
    host, port = server.url.removeprefix("http://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=_PATIENCE_SECONDS)


def send(server: Server, *pieces: bytes) -> RawAnswer:
    """Send bytes, and read until the server has closed the connection, as it must here."""
    with closing(connect(server)) as connection:
        write(connection, pieces)
        return read_to_end(connection)


def write(connection: socket.socket, pieces: Iterable[bytes]) -> int:
    """Send until the server will have no more; how many pieces went out."""
    sent = 0
    with suppress(BrokenPipeError, ConnectionResetError):
        for piece in pieces:
            connection.sendall(piece)
            sent += 1
    return sent


def read_to_end(connection: socket.socket) -> RawAnswer:
    received = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            received += piece
    return _parse(received)


def read_one(connection: socket.socket) -> RawAnswer:
    """Read the next answer, whose head tells its length, on a connection that stays open."""
    received = b""
    while (answer := _parse(received)).length is None or len(answer.body) < answer.length:
        piece = connection.recv(65_536)
        assert piece, received
        received += piece
    return answer


def _parse(received: bytes) -> RawAnswer:
    head, _, body = received.partition(b"\r\n\r\n")
    return RawAnswer(int(head.split()[1]) if head else 0, head.decode(), body)


def post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """A request after whose answer the server closes."""
    lines = ["POST /classify HTTP/1.1", "host: x", "connection: close", *headers]
    return (
        "\r\n".join([*lines, f"content-length: {len(body) if length is None else length}", "", ""]).encode()
        + body
    )


def chunked(pieces: Iterable[bytes]) -> Iterable[bytes]:
    yield b"POST /classify HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    for piece in pieces:
        yield b"%x\r\n%b\r\n" % (len(piece), piece)
