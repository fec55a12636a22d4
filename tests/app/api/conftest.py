from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service import Server, running_server

MODERATION = {"reviews": {"negative": "harassment"}}


@pytest.fixture(scope="session")
def moderating(bundles: Path) -> Iterator[Server]:
    """A server one of whose models moderates."""
    with running_server(bundles, moderation=json.dumps(MODERATION)) as server:
        yield server
