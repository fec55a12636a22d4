"""The metrics of the service. Every label set is closed and created at start (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from itertools import product
from typing import TypeVar, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from app.errors import (
    CONNECTION_PROBLEMS,
    DOCUMENT_PROBLEMS,
    REFUSALS,
    STATE_PROBLEMS,
    NetworkBusy,
    ShuttingDown,
    TooManyConnections,
)
from app.keys import Caller
from app.logs import lost_events
from app.manifest import Manifest
from app.scheduler.batch import Reason
from app.scheduler.runner import FailedRun
from app.scheduler.scheduler import DropReason, DropStage

STAGES = ("tokenize", "queue", "run", "encode")
DISPATCH_REASONS = get_args(Reason)
DROP_STAGES = get_args(DropStage)
DROP_REASONS = get_args(DropReason)
FAILED_RUNS = get_args(FailedRun)
TOKEN_KINDS = ("real", "padding")
MODEL_CHANGES = ("loaded", "replaced", "removed", "refused")
RELOAD_OUTCOMES = ("done", "failed")
OTHER_ROUTE = "other"
STALLED = "stalled"  # a client that took nothing of its answer
_CLASSIFYING = (200, 404, 413, 422, 429, 499, 500, 503, 504)
ROUTE_STATUSES: dict[str, tuple[int, ...]] = {
    "/classify": _CLASSIFYING,
    "/classify/stream": _CLASSIFYING,
    "/predict": _CLASSIFYING,
    "/models/{name}": _CLASSIFYING,
    "/v1/moderations": _CLASSIFYING,
    "/v2/models/{name}/infer": _CLASSIFYING,
    "/v2/models/{name}/versions/{version}/infer": _CLASSIFYING,
    "/v2/models/{name}": (200, 404),
    "/v2/models/{name}/versions/{version}": (200, 404),
    "/v2/models/{name}/ready": (200, 404),
    "/v2/models/{name}/versions/{version}/ready": (200, 404),
    "/v2": (200,),
    "/v2/health/live": (200,),
    "/v2/health/ready": (200, 503),
    "/v1/models": (200,),
    "/v1/models/{name}": (200, 404),
    "/v1/models/reload": (200, 409),
    "/health/live": (200,),
    "/health/ready": (200, 503),
    "/metrics": (200,),
    "/docs": (200,),
    "/openapi.json": (200,),
    "/": (*_CLASSIFYING, 206, 304, 416),
    "/static": (200, 206, 304, 404, 416),
    OTHER_ROUTE: (200, 307, 400, 401, 403, 404, 405, 500),
}

# Edges near the service's own targets: a short text in 10 ms, a page in 100 ms, the deadline at 30 s.
_REQUEST_SECONDS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_STAGE_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30)
_RUN_SECONDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
_RATIOS = (0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 4, 8)
_ROWS = (1, 2, 4, 8, 16, 32, 64)
_TENTHS = tuple(tenth / 10 for tenth in range(11))
_CONFIDENCES = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)

_RUN_LABELS = ("model", "reading", "bucket")

MetricT = TypeVar("MetricT", Counter, Histogram)


class Metrics:
    """One process's metrics in a registry of their own."""

    def __init__(self) -> None:
        # They are a series more for each counter and histogram, and nobody asks when those began.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.registry.register(_LostLogEvents())
        self._define_requests()
        self._define_quotas()
        self._define_documents()
        self._define_runs()
        self._define_models()
        self._create_closed_series()

    def _counter(self, name: str, help_: str, *labels: str) -> Counter:
        return _remembering(Counter(f"readtrace_{name}", help_, labels, registry=self.registry))

    def _gauge(self, name: str, help_: str, *labels: str) -> Gauge:
        return Gauge(f"readtrace_{name}", help_, labels, registry=self.registry)

    def _histogram(self, name: str, help_: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return _remembering(
            Histogram(f"readtrace_{name}", help_, labels, buckets=buckets, registry=self.registry)
        )

    def _define_requests(self) -> None:
        self.request_seconds = self._histogram(
            "request_seconds", "Time of HTTP requests", _REQUEST_SECONDS, "route", "status"
        )
        self.stage_seconds = self._histogram(
            "stage_seconds", "Time of a document in each stage", _STAGE_SECONDS, "model", "stage"
        )
        self.in_flight_requests = self._gauge("in_flight_requests", "HTTP requests being answered")
        self.open_connections = self._gauge("open_connections", "Connections of clients")
        self.refused_connections_total = self._counter(
            "refused_connections_total", "Connections closed by the service", "reason"
        )
        self.body_bytes = self._gauge(
            "body_bytes", "Bytes of bodies that arrive or are parsed, beyond the first 64 KiB of each"
        )
        self.open_streams = self._gauge("open_streams", "Answers being sent as server-sent events")
        self.refused_states_total = self._counter(
            "refused_states_total", "Reading states that were not taken", "reason"
        )
        self.refused_total = self._counter("refused_total", "Requests refused before queueing", "reason")
        self.disconnects_total = self._counter("disconnects_total", "Clients that left before their answer")
        self.deadline_misses_total = self._counter("deadline_misses_total", "Documents past their deadline")

    def _define_quotas(self) -> None:
        self.quota_tokens_total = self._counter("quota_tokens_total", "Tokens charged to an API key", "key")
        self.quota_left_tokens = self._gauge(
            "quota_left_tokens", "Tokens that an API key may read now; keys without a quota have none", "key"
        )
        self.quota_refused_total = self._counter(
            "quota_refused_total", "Requests refused because the quota of an API key was used up", "key"
        )

    def _define_documents(self) -> None:
        self.documents_total = self._counter("documents_total", "Documents answered", "model")
        self.partial_documents_total = self._counter(
            "partial_documents_total", "Documents answered at their deadline with a first part", "model"
        )
        self.continued_documents_total = self._counter(
            "continued_documents_total", "Documents answered that went on from a reading state", "model"
        )
        self.tokens_total = self._counter("tokens_total", "Tokens of answered documents", "model")
        self.unknown_tokens_total = self._counter(
            "unknown_tokens_total", "Tokens of answered documents outside the vocabulary", "model"
        )
        self.skip_rate = self._histogram(
            "skip_rate", "Share of words skipped in a document", _TENTHS, "model"
        )
        self.words_read_total = self._counter("words_read_total", "Words that a skipping model read", "model")
        self.words_skipped_total = self._counter(
            "words_skipped_total", "Words that a skipping model skipped", "model"
        )
        self.predictions_total = self._counter("predictions_total", "Answers by label", "model", "label")
        self.confidence = self._histogram(
            "confidence", "Probability of the winning label", _CONFIDENCES, "model"
        )
        self.failed_documents_total = self._counter(
            "failed_documents_total", "Documents answered with a problem", "reason"
        )

    def _define_runs(self) -> None:
        self.run_seconds = self._histogram("run_seconds", "Time of a run", _RUN_SECONDS, *_RUN_LABELS)
        self.run_rows = self._histogram("run_rows", "Real rows of a run", _ROWS, *_RUN_LABELS)
        self.run_tokens_total = self._counter("run_tokens_total", "Tokens run", *_RUN_LABELS, "kind")
        self.dispatch_total = self._counter(
            "dispatch_total",
            "Runs by why they have the rows that they have",
            *_RUN_LABELS,
            "reason",
        )
        self.run_prediction_ratio = self._histogram(
            "run_prediction_ratio",
            "Time of a run over that predicted with the work around it",
            _RATIOS,
            *_RUN_LABELS,
        )
        self.queue_prediction_ratio = self._histogram(
            "queue_prediction_ratio",
            "Time in the queue over that predicted when the request came, of one in 16 requests that found others",
            _RATIOS,
            "model",
        )
        self.failed_runs_total = self._counter(
            "failed_runs_total", "Runs that gave nothing", *_RUN_LABELS, "reason"
        )
        self.dropped_documents_total = self._counter(
            "dropped_documents_total", "Accepted documents that were not read on", "stage", "reason"
        )
        self.queue_documents = self._gauge("queue_documents", "Documents accepted and not yet answered")
        self.queue_tokens = self._gauge("queue_tokens", "Tokens accepted and not yet read, over all passes")
        self.engine_threads = self._gauge("engine_threads", "Engine threads that work")
        self.engine_restarts_total = self._counter("engine_restarts_total", "Engine threads started anew")

    def _define_models(self) -> None:
        self.model_info = self._gauge(
            "model_info", "A loaded model, 1", "model", "version", "architecture", "provider"
        )
        self.model_loaded = self._gauge(
            "model_loaded", "1 for a version that serves, 0 for one that was refused", "model", "version"
        )
        self.bundle_refused = self._gauge(
            "bundle_refused",
            "1 where what is in the folder was refused; a version loaded before then goes on",
            "model",
            "version",
        )
        self.model_bytes = self._gauge("model_bytes", "Size of a loaded bundle's files", "model", "version")
        self.retiring_models = self._gauge(
            "retiring_models", "Versions that were replaced or removed and still end their work"
        )
        self.model_changes_total = self._counter(
            "model_changes_total", "Versions by what a reload of the folder did to them", "outcome"
        )
        self.reloads_total = self._counter("reloads_total", "Readings anew of the folder", "outcome")
        self.reload_seconds = self._gauge("reload_seconds", "Time of the last reload")
        self.model_load_seconds = self._gauge(
            "model_load_seconds", "Time to check, load and calibrate", "model", "version"
        )

    def _create_closed_series(self) -> None:
        for route, statuses in ROUTE_STATUSES.items():
            for status in statuses:
                self.request_seconds.labels(route, str(status))
        told = (problem.slug for problem in CONNECTION_PROBLEMS)
        for reason in (*told, TooManyConnections.slug, NetworkBusy.slug, ShuttingDown.slug, STALLED):
            self.refused_connections_total.labels(reason)
        for refusal in REFUSALS:
            self.refused_total.labels(refusal.slug)
        for state_problem in STATE_PROBLEMS:
            self.refused_states_total.labels(state_problem.slug)
        for stage, drop_reason in product(DROP_STAGES, DROP_REASONS):
            self.dropped_documents_total.labels(stage, drop_reason)
        for problem in DOCUMENT_PROBLEMS:
            self.failed_documents_total.labels(problem.slug)
        for change in MODEL_CHANGES:
            self.model_changes_total.labels(change)
        for outcome in RELOAD_OUTCOMES:
            self.reloads_total.labels(outcome)

    def declare_model(self, manifest: Manifest) -> None:
        """Create every series that counts what a model does."""
        name = manifest.name
        for metric in (
            self.documents_total,
            self.partial_documents_total,
            self.continued_documents_total,
            self.tokens_total,
            self.unknown_tokens_total,
            self.confidence,
        ):
            metric.labels(name)
        for stage in STAGES:
            self.stage_seconds.labels(name, stage)
        for label in manifest.labels:
            self.predictions_total.labels(name, label)
        if manifest.skips:
            for metric in (self.skip_rate, self.words_read_total, self.words_skipped_total):
                metric.labels(name)
        self.queue_prediction_ratio.labels(name)
        self._declare_runs(manifest)

    def _declare_runs(self, manifest: Manifest) -> None:
        for reading in manifest.passes:
            for bucket in manifest.length_buckets:
                run = (manifest.name, reading.name, str(bucket))
                self.run_seconds.labels(*run)
                self.run_rows.labels(*run)
                self.run_prediction_ratio.labels(*run)
                for why in FAILED_RUNS:
                    self.failed_runs_total.labels(*run, why)
                for kind in TOKEN_KINDS:
                    self.run_tokens_total.labels(*run, kind)
                for reason in DISPATCH_REASONS:
                    self.dispatch_total.labels(*run, reason)

    def declare_callers(self, callers: Iterable[Caller]) -> None:
        """Create the series of the API keys of now; a key or quota that is gone has nothing left to tell."""
        self.quota_left_tokens.clear()
        for caller in callers:
            self.quota_tokens_total.labels(caller.key.name)
            if caller.quota is not None:
                self.quota_refused_total.labels(caller.key.name)
                left = partial(getattr, caller.quota, "left")
                self.quota_left_tokens.labels(caller.key.name).set_function(left)

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request under its route, or under ``other`` where route and status are not expected."""
        if status not in ROUTE_STATUSES.get(route, ()):
            route = OTHER_ROUTE
            status = status if status in ROUTE_STATUSES[OTHER_ROUTE] else _nearest(status)
        self.request_seconds.labels(route, str(status)).observe(seconds)

    def names(self) -> Iterable[str]:
        """The names of the service's own metrics as the exposition format has them, without suffixes."""
        return (
            family.name + ("_total" if family.type == "counter" else "")
            for family in self.registry.collect()
            if family.name.startswith("readtrace_")
        )

    def exposition(self) -> bytes:
        """The text exposition format; tens of milliseconds of work with some models. May be called from any thread."""
        return generate_latest(self.registry)


def _remembering(metric: MetricT) -> MetricT:
    """Finding a series takes longer than counting, and those of counters and histograms are never removed."""
    metric.labels = cache(metric.labels)  # type: ignore[method-assign]
    return metric


class _LostLogEvents(Collector):
    def collect(self) -> Iterable[Metric]:
        """The log knows no metrics, so it is asked."""
        yield CounterMetricFamily(
            "readtrace_lost_log_events", "Events that did not reach the log", lost_events()
        )


def _nearest(status: int) -> int:
    """Keep the label set closed: an unforeseen status counts as a plain one of its kind."""
    return 500 if status >= 500 else 404 if status >= 400 else 200
