"""Shows in the metrics which versions are loaded; what leaves the catalogue leaves them too."""

from __future__ import annotations

from prometheus_client import Gauge

from app.engine.registry import Catalogue, Registry
from app.observability.metrics import Metrics

_Series = tuple[Gauge, tuple[str, ...]]


class ModelMetrics:
    """The gauges of models; their counters stay for as long as the process, as counters must."""

    def __init__(self, metrics: Metrics, registry: Registry) -> None:
        self._metrics = metrics
        self._shown: set[_Series] = set()
        metrics.retiring_models.set_function(lambda: len(registry.retiring))
        self.show(registry.catalogue)

    def show(self, catalogue: Catalogue) -> None:
        """Show this catalogue and no other."""
        values = self._values(catalogue)
        for loaded in catalogue.loaded.values():
            self._metrics.declare_model(loaded.manifest)
        for (gauge, labels), value in values.items():
            gauge.labels(*labels).set(value)
        for gauge, labels in self._shown - values.keys():
            gauge.remove(*labels)
        self._shown = set(values)

    def _values(self, catalogue: Catalogue) -> dict[_Series, float]:
        metrics = self._metrics
        values: dict[_Series, float] = {}
        for bundle in catalogue.refused:
            values[metrics.model_loaded, (bundle.name, bundle.version)] = 0
            values[metrics.bundle_refused, (bundle.name, bundle.version)] = 1
        for loaded in catalogue.loaded.values():
            version = (loaded.manifest.name, loaded.manifest.version)
            values[metrics.model_loaded, version] = 1
            values.setdefault((metrics.bundle_refused, version), 0)
            values[metrics.model_bytes, version] = loaded.file_bytes
            values[metrics.model_load_seconds, version] = loaded.load_seconds
            values[metrics.model_info, (*version, loaded.manifest.architecture, loaded.provider)] = 1
        return values
