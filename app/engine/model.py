"""A loaded model: its manifest, tokenizer and card, and a graph for every pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from tokenizers import Tokenizer

from app.bundle import CARD, BundleError, read_file, read_hashed_manifest
from app.engine.sessions import Graph, open_graph
from app.manifest import TOKENIZER, Manifest
from app.scheduler.document import Array
from app.scheduler.watch import RunControl
from app.settings import Settings
from app.text.cut_places import CutPlaces, find_places
from app.text.tokens import is_tokenizer_failure, load_tokenizer

_loads = count(1)


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What answers for one bundle; ``run`` may be called from many threads."""

    manifest: Manifest
    tokenizer: Tokenizer
    places: CutPlaces  # where its texts may be cut in two
    card: str
    provider: str
    graphs: Mapping[str, Graph]  # by pass
    manifest_sha256: str  # of the bytes of the manifest, which has the hashes of the other files
    load: int = field(default_factory=lambda: next(_loads))  # the how many-th of this process

    @property
    def id(self) -> str:
        """``name@version``."""
        return f"{self.manifest.name}@{self.manifest.version}"

    @property
    def key(self) -> str:
        """``name@version#load``: a version that is loaded again, changed or not, has another."""
        return f"{self.id}#{self.load}"

    def run(
        self, reading: str, arrays: Mapping[str, Array], control: RunControl | None = None
    ) -> dict[str, Array]:
        """Run one pass over one batch; names and shapes as docs/architecture.md has them."""
        return self.graphs[reading].run(arrays, control)


def open_model(folder: Path, settings: Settings) -> Model:
    """Check a bundle's files and open its graphs; nothing has been run yet.

    Raises:
        BundleError: it must not be served.
        StartError: the device that was asked for is not there.
    """
    manifest, sha256 = read_hashed_manifest(folder, settings.bundles)
    graphs = {
        reading.name: open_graph(folder, manifest, reading, settings.device, settings.allow_cpu_fallback)
        for reading in manifest.passes
    }
    tokenizer = _open_tokenizer(folder, manifest)
    card = read_file(folder, manifest, CARD) if CARD in manifest.sha256 else b""
    return Model(
        manifest=manifest,
        tokenizer=tokenizer,
        places=find_places(tokenizer),
        card=card.decode("utf-8", "replace"),
        provider=graphs[manifest.passes[-1].name].provider,
        graphs=graphs,
        manifest_sha256=sha256,
    )


def _open_tokenizer(folder: Path, manifest: Manifest) -> Tokenizer:
    content = read_file(folder, manifest, TOKENIZER)
    try:
        return load_tokenizer(content)
    except BaseException as error:
        if not is_tokenizer_failure(error):
            raise
        raise BundleError(f"{folder / TOKENIZER}: not a tokenizer: {str(error)[:200]}") from error
