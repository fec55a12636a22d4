"""Class names: given or found, and the index of a row's label among them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from models.data.rows import Row
from models.errors import ConfigError, DataError

DROP = -1  # the index of a label that `label_map` leaves out
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")


@dataclass(frozen=True)
class LabelSet:
    """Class names in label order, and how labels as written map to them.

    Attributes:
        names: the classes in order.
        mapping: label as written -> class name, or None to leave such rows out; empty for no mapping.
    """

    names: tuple[str, ...]
    mapping: Mapping[str, str | None]

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        """Position as written -> class index; none beside names like `1` or `-1.0`, which would mean another class."""
        if any(map(_NUMBER.fullmatch, self.names)):
            return {}
        return {str(position): position for position in range(len(self.names))}

    def index(self, row: Row, path: Path) -> int:
        """The class index of a row, or `DROP`.

        A label is a class name, or, where no name is a number, a position among the names.

        Raises:
            DataError: the label is none of the classes.
        """
        label = str(row.label)
        if self.mapping:
            if label not in self.mapping:
                raise DataError(
                    path, row.line, f"expected a label in {sorted(self.mapping)}, found '{label}'"
                )
            mapped = self.mapping[label]
            if mapped is None:
                return DROP
            label = mapped
        if label in self.names:
            return self.names.index(label)
        if label in self._positions:
            return self._positions[label]
        raise DataError(path, row.line, f"expected one of the classes {list(self.names)}, found '{label}'")


def given_labels(names: Iterable[str], mapping: Mapping[str, str | None]) -> LabelSet:
    """A label set from configured class names.

    Raises:
        ConfigError: fewer than two names, repeated or empty names, or a mapping to a name that is not among them.
    """
    ordered = tuple(names)
    if len(ordered) < 2 or len(set(ordered)) != len(ordered) or not all(map(str.strip, ordered)):
        raise ConfigError(f"expected two or more distinct class names, found {list(ordered)}")
    if unknown := {name for name in mapping.values() if name is not None} - set(ordered):
        raise ConfigError(
            f"label_map names {sorted(unknown)}, which are not among the classes {list(ordered)}"
        )
    return LabelSet(ordered, dict(mapping))


def found_labels(labels: Iterable[str | int], path: Path) -> LabelSet:
    """A label set of the distinct labels of the training files; numbers in numeric order, names in alphabetic.

    Raises:
        DataError: fewer than two distinct labels.
    """
    distinct = {str(label) for label in labels}
    if len(distinct) < 2:
        raise DataError(
            path, None, f"expected rows of at least two classes, found {sorted(distinct) or 'no rows'}"
        )
    numeric = all(map(_NUMBER.fullmatch, distinct))
    return LabelSet(
        tuple(sorted(distinct, key=(lambda label: (float(label), label)) if numeric else None)), {}
    )
