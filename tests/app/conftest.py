from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from app.engine.loading import load_registry
from app.engine.registry import Registry
from app.settings import Settings, read_settings
from tests.app.tiny import write_all, write_phrases
from tests.service import Server, running_server


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_all(tmp_path_factory.mktemp("bundles"))


@pytest.fixture
def settings(bundles: Path) -> Settings:
    return read_settings(bundles=bundles)


@pytest.fixture(scope="session")
def registry(bundles: Path) -> Registry:
    return load_registry(read_settings(bundles=bundles))


@pytest.fixture(scope="session")
def phrases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bundle of windows."""
    root = tmp_path_factory.mktemp("phrases")
    write_phrases(root)
    return root


@pytest.fixture(scope="session")
def phrase_registry(phrases: Path) -> Registry:
    return load_registry(read_settings(bundles=phrases))


@pytest.fixture(scope="session")
def server(bundles: Path) -> Iterator[Server]:
    with running_server(bundles) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


Classify = Callable[..., httpx.Response]


@pytest.fixture
def classify(client: httpx.Client) -> Classify:
    """``classify(input, **fields)`` posts a request."""

    def post(texts: object, **fields: object) -> httpx.Response:
        return client.post("/classify", json={"input": texts, **fields})

    return post
