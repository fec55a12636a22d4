"""The bundle's folder: which files it must have, and the checks that let it in.

A bundle is a folder ``NAME/VERSION/`` with ``manifest.json`` (`app.manifest`), ``tokenizer.json``, the ONNX graphs and
``card.md``.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from app.manifest import NAME, TOKENIZER, VERSION, Manifest

MANIFEST = "manifest.json"
CARD = "card.md"
LATEST = "latest"
STABLE = "stable"  # also the file in NAME/ that holds the version
ANY = "*"  # in place of a version: all that may be in a folder NAME that cannot be read
# A graph cannot be larger: that is the most that its serialisation holds. The others are read whole into memory.
_MOST_BYTES = {MANIFEST: 16 * 2**20, TOKENIZER: 256 * 2**20, CARD: 2**20, STABLE: 64}
_MOST_GRAPH_BYTES = 2**31 - 1
_MOST_CHARACTERS = 1000  # of a message, which may name all files of a folder


def printable(name: str) -> str:
    """The same text; bytes of a file's name that are no UTF-8 are written as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


class BundleError(Exception):
    """A bundle that must not be served; the message says what was expected and what was found.

    It has no more than some lines and can be printed, whatever a file in the folder is called.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message)[:_MOST_CHARACTERS])


def file_sha256(path: Path) -> str:
    """The hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bundle_bytes(folder: Path) -> int:
    """The size of a bundle's files together.

    Raises:
        BundleError: they cannot be looked at.
    """
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError as error:
        raise BundleError(f"{folder}: cannot be read: {error.strerror}") from error


def find_bundles(root: Path, refuse: Callable[[Path, BundleError], None] | None = None) -> list[Path]:
    """The bundle folders ``NAME/VERSION`` below ``root``, or ``root`` itself where it is a bundle.

    A folder named like a version is one too where its manifest is missing.

    Args:
        root: the folder of bundles.
        refuse: told of a folder NAME that cannot be read, which is raised without it.

    Raises:
        BundleError: ``root`` is not a folder, cannot be read, or holds no bundle.
    """
    if not os.path.isdir(root):
        raise BundleError(f"{root}: expected a folder of bundles (NAME/VERSION/{MANIFEST}), found none")
    if os.path.lexists(root / MANIFEST):
        return [root]
    found: list[Path] = []
    refused = 0
    for name in _folders(root):
        try:
            found += [version for version in _folders(name) if _is_bundle(version)]
        except BundleError as error:
            if not NAME.fullmatch(name.name):
                continue  # no bundle's, such as the lost+found of a disk
            if refuse is None:
                raise
            refuse(name, error)
            refused += 1
    if not found and not refused:
        raise BundleError(f"{root}: no NAME/VERSION/{MANIFEST} below it; `readtrace export` writes one")
    return found


def _folders(parent: Path) -> list[Path]:
    """In order; names that begin with a dot are those of writers that have not finished."""
    try:
        return sorted(
            path for path in parent.iterdir() if not path.name.startswith(".") and os.path.isdir(path)
        )
    except OSError as error:
        raise BundleError(f"{parent}: cannot be read: {error.strerror}") from error


def _is_bundle(folder: Path) -> bool:
    return bool(VERSION.fullmatch(folder.name)) or os.path.lexists(folder / MANIFEST)


def is_gone(folder: Path) -> bool:
    """Whether nothing of the name is there: what cannot be looked at may be."""
    try:
        folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def read_stable(name_folder: Path) -> str | None:
    """The version that the file ``NAME/stable`` chooses; None where there is no such file.

    Raises:
        BundleError: the file holds no version.
    """
    path = name_folder / STABLE
    if is_gone(path):
        return None
    text = _read(path).decode("utf-8", "replace").strip()
    if not VERSION.fullmatch(text):
        raise BundleError(f"{path}: expected a version such as 2 or 1.10, found {text[:64]!r}")
    return text


def read_manifest(folder: Path, root: Path | None = None) -> Manifest:
    """The manifest of `read_hashed_manifest`.

    Raises:
        BundleError: as there.
    """
    return read_hashed_manifest(folder, root)[0]


def read_hashed_manifest(folder: Path, root: Path | None = None) -> tuple[Manifest, str]:
    """Read and verify a bundle: schema, the folder's names, the files present and their hashes.

    Args:
        folder: the bundle.
        root: the folder of bundles in which it is ``NAME/VERSION``; None, or itself, for one on its own.

    Returns:
        The manifest, and the hexadecimal SHA-256 of the bytes that it was read from.

    Raises:
        BundleError: anything is missing, unexpected, linked from elsewhere, too large, or not what was
            hashed.
    """
    nested = root is not None and root != folder
    for place in (folder, folder.parent) if nested else ():
        if place.is_symlink():
            raise BundleError(f"{place}: expected a folder, found a link")
    content = _read(folder / MANIFEST)
    manifest = _parse(folder / MANIFEST, content)
    if nested and (manifest.name, manifest.version) != (folder.parent.name, folder.name):
        raise BundleError(f"{folder}: the manifest is of {manifest.name}/{manifest.version}")
    expected = {*manifest.sha256, MANIFEST}
    try:
        found = {path.name for path in folder.iterdir()}
    except OSError as error:
        raise BundleError(f"{folder}: cannot be read: {error.strerror}") from error
    if missing := expected - found:
        raise BundleError(f"{folder}: missing {', '.join(sorted(missing))}")
    if unknown := found - expected:
        raise BundleError(f"{folder}: files that the manifest does not list: {', '.join(sorted(unknown))}")
    for name in manifest.sha256:
        read_file(folder, manifest, name)
    return manifest, hashlib.sha256(content).hexdigest()


def read_file(folder: Path, manifest: Manifest, name: str) -> bytes:
    """The bytes of one of a bundle's files, which are those that were hashed.

    Raises:
        BundleError: they are not, or it is no plain file, or too large.
    """
    path = folder / name
    content = _read(path)
    if (actual := hashlib.sha256(content).hexdigest()) != manifest.sha256[name]:
        raise BundleError(f"{path}: sha256 is {actual}, the manifest says {manifest.sha256[name]}")
    return content


def _read(path: Path) -> bytes:
    """What is looked at is what is read: a name may stand for another file by then.

    A pipe is not waited for, and a link not followed.
    """
    most_bytes = _MOST_BYTES.get(path.name, _MOST_GRAPH_BYTES)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise BundleError(f"{path}: expected a plain file")
            if found.st_size > most_bytes:
                raise BundleError(f"{path}: expected at most {most_bytes} bytes, found {found.st_size}")
            content = file.read(found.st_size + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BundleError(f"{path}: expected a plain file, found a link") from error
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > found.st_size:
        raise BundleError(f"{path}: grew while it was read")
    return content


def _parse(path: Path, content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "manifest"
        raise BundleError(f"{path}: {where}: {first['msg']}") from error
