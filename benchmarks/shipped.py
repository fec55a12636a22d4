"""The models that ship, as benchmarks and tests find them."""

from __future__ import annotations

from pathlib import Path

from app.bundle import find_bundles, read_manifest
from app.manifest import version_key

BUNDLES = Path(__file__).parent.parent / "bundles"


def newest(name: str, bundles: Path = BUNDLES) -> Path:
    """The folder of a model's highest version.

    Raises:
        ValueError: no version of it is there.
    """
    versions = [folder for folder in find_bundles(bundles) if folder.parent.name == name]
    return max(versions, key=lambda folder: version_key(folder.name))


def described(folder: Path) -> str:
    """A bundle as reports name it: ``imdb@2, clstm``."""
    manifest = read_manifest(folder)
    return f"{manifest.name}@{manifest.version}, {manifest.architecture}"
