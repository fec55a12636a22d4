"""A loaded model: its manifest, tokenizer and card, and a graph for every pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from app.bundle import CARD, TOKENIZER, BundleError, Manifest, read_manifest
from app.engine.sessions import Graph, open_graph
from app.scheduler.document import Array
from app.settings import Settings
from app.text import load_tokenizer


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What answers for one bundle; ``run`` may be called from many threads."""

    manifest: Manifest
    tokenizer: Tokenizer
    card: str
    provider: str
    graphs: Mapping[str, Graph]  # by pass

    @property
    def id(self) -> str:
        """``name@version``."""
        return f"{self.manifest.name}@{self.manifest.version}"

    def run(self, reading: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Run one pass over one batch; names and shapes as docs/architecture.md has them."""
        return self.graphs[reading].run(arrays)


def open_model(folder: Path, settings: Settings) -> Model:
    """Check a bundle's files and open its graphs; nothing has been run yet.

    Raises:
        BundleError: it must not be served.
        StartError: the device that was asked for is not there.
    """
    manifest = read_manifest(folder)
    graphs = {
        reading.name: open_graph(folder, manifest, reading, settings.device, settings.allow_cpu_fallback)
        for reading in manifest.passes
    }
    card = folder / CARD
    return Model(
        manifest=manifest,
        tokenizer=_open_tokenizer(folder / TOKENIZER),
        card=card.read_text(encoding="utf-8") if card.is_file() else "",
        provider=graphs[manifest.passes[-1].name].provider,
        graphs=graphs,
    )


def _open_tokenizer(path: Path) -> Tokenizer:
    try:
        return load_tokenizer(path.read_bytes())
    except Exception as error:  # the library raises plain Exception
        raise BundleError(f"{path}: not a tokenizer: {error}") from error
