"""The models that may answer, by their names, and the bundles refused with their reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from app.bundle import LATEST, STABLE
from app.engine.calibration import Calibration
from app.engine.model import Model
from app.errors import UnknownModel
from app.manifest import version_key
from app.scheduler.costs import RunCosts
from app.scheduler.document import Array
from app.scheduler.segments import Lane
from app.scheduler.watch import RunControl


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, weakref_slot=True)
class LoadedModel(Model):
    """A model that passed its golden documents, with its calibration."""

    folder: Path
    calibration: Calibration
    load_seconds: float
    file_bytes: int  # of the bundle, which is what it counts against `max_models_bytes`


@dataclass(frozen=True, slots=True)
class RefusedBundle:
    """A bundle that must not answer.

    ``version`` is ``stable`` where the choice of the stable one is bad, ``*`` where the folder NAME cannot be read.
    """

    name: str
    version: str
    reason: str

    @property
    def id(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"


class Catalogue:
    """What answers to which name; never changed, only replaced as a whole."""

    def __init__(
        self,
        loaded: Iterable[LoadedModel],
        refused: Iterable[RefusedBundle] = (),
        stable: Mapping[str, str] | None = None,
        default: str | None = None,
    ) -> None:
        """Index the models, of which there is at least one.

        Args:
            loaded: models of distinct names and versions.
            refused: bundles that were not loaded, or not loaded again.
            stable: by name, the version that was chosen as stable.
            default: the model of requests that name none; None for the first name in alphabetical order.

        Raises:
            UnknownModel: ``default`` is none of them.
        """
        self.loaded: Mapping[str, LoadedModel] = {one.id: one for one in loaded}
        self.refused = tuple(refused)
        self._by_name: dict[str, LoadedModel] = dict(self.loaded)
        by_version = sorted(self.loaded.values(), key=lambda one: version_key(one.manifest.version))
        for one in by_version:  # a later, higher version takes the names over
            name = one.manifest.name
            self._by_name[name] = self._by_name[f"{name}@{LATEST}"] = one
        self.stable = dict(stable or {})
        for name, version in self.stable.items():
            self._by_name[name] = self._by_name[f"{name}@{STABLE}"] = self.loaded[f"{name}@{version}"]
        # Who chose a stable version did not choose the latest: where the choice is bad, the name is nobody's.
        for bundle in self.refused:
            if bundle.version == STABLE and bundle.name not in self.stable:
                self._by_name.pop(bundle.name, None)
        self.default = self.find(default or min(one.manifest.name for one in by_version))

    def find(self, name: str | None) -> LoadedModel:
        """The model of a request.

        ``name`` is its stable version where one was chosen, else its latest; ``name@stable``,
        ``name@latest`` and ``name@version`` are what they say; None is the default.

        Raises:
            UnknownModel: there is none.
        """
        if name is None:
            return self.default
        if found := self._by_name.get(name):
            return found
        for bundle in self.refused:
            if name in (bundle.id, bundle.name):
                raise UnknownModel(f"{bundle.id} was refused: {bundle.reason}")
        names = sorted({one.manifest.name for one in self.loaded.values()})
        raise UnknownModel(
            f"Expected one of {', '.join(names)} (or NAME@VERSION, NAME@{LATEST}, NAME@{STABLE}), "
            f"got {name[:128]!r}."
        )

    def aliases(self, model: Model) -> list[str]:
        """The names besides ``name@version`` that a model answers to."""
        return sorted(name for name, found in self._by_name.items() if found is model and name != model.id)


class Registry:
    """The catalogue of now; runs the batches of all models, also of those that left it and end their work.

    Nothing here keeps a replaced model: its documents do, so it goes with the last of them.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._alive: WeakValueDictionary[str, LoadedModel] = WeakValueDictionary()
        self.catalogue = catalogue
        self._alive.update({one.key: one for one in catalogue.loaded.values()})

    def replace(self, catalogue: Catalogue) -> None:
        """From now on other models answer; what was asked of the old ones is still answered by them."""
        self._alive.update({one.key: one for one in catalogue.loaded.values()})
        self.catalogue = catalogue

    @property
    def loaded(self) -> Mapping[str, LoadedModel]:
        """The models by ``name@version``."""
        return self.catalogue.loaded

    @property
    def refused(self) -> tuple[RefusedBundle, ...]:
        """The bundles that must not answer."""
        return self.catalogue.refused

    @property
    def retiring(self) -> list[LoadedModel]:
        """Models that were replaced or removed and still have work to end; may be asked from any thread."""
        current = set(self.loaded.values())
        # Not items(): another thread may add models meanwhile.
        alive = [reference() for reference in self._alive.valuerefs()]
        return [one for one in alive if one is not None and one not in current]

    def find(self, name: str | None) -> LoadedModel:
        """The model of a request, as `Catalogue.find`.

        Raises:
            UnknownModel: there is none.
        """
        return self.catalogue.find(name)

    def costs(self, lane: Lane) -> RunCosts:
        """The row counts that were warmed up for the lane, and what a run of each costs."""
        return self._alive[lane.model].calibration.costs[lane.reading, lane.bucket]

    def run(self, lane: Lane, arrays: Mapping[str, Array], control: RunControl) -> Mapping[str, Array]:
        """Run one batch of the lane; ``control`` may stop it."""
        return self._alive[lane.model].run(lane.reading, arrays, control)
