"""Turns what the scheduler and the service do into metrics."""

from __future__ import annotations

import numpy as np

from app.errors import DeadlineExceeded, DocumentProblem, Problem
from app.observability.metrics import Metrics
from app.reading.answer import Answer
from app.scheduler.batch import Reason
from app.scheduler.runner import FailedRun, Run
from app.scheduler.scheduler import DropReason, DropStage
from app.scheduler.segments import Lane


class MetricsObserver:
    """The scheduler's observer; also counts answered documents."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def dispatched(self, lane: Lane, reason: Reason) -> None:
        """Count a batch by why it was run."""
        self._metrics.dispatch_total.labels(*self._labels(lane), reason).inc()

    def ran(self, run: Run) -> None:
        """Count a run's rows, tokens, padding and time."""
        labels = self._labels(run.lane)
        self._metrics.run_seconds.labels(*labels).observe(run.seconds)
        if run.predicted_seconds:
            self._metrics.run_prediction_ratio.labels(*labels).observe(run.seconds / run.predicted_seconds)
        self._metrics.run_rows.labels(*labels).observe(run.documents)
        self._metrics.run_tokens_total.labels(*labels, "real").inc(run.tokens)
        padding = run.rows * run.lane.bucket - run.tokens
        self._metrics.run_tokens_total.labels(*labels, "padding").inc(padding)

    def run_failed(self, lane: Lane, why: FailedRun) -> None:
        """Count a run that gave nothing."""
        self._metrics.failed_runs_total.labels(*self._labels(lane), why).inc()

    def dropped(self, stage: DropStage, reason: DropReason) -> None:
        """Count a document that was not read on."""
        self._metrics.dropped_documents_total.labels(stage, reason).inc()

    def threads_changed(self, working: int) -> None:
        """Show how many engine threads work."""
        self._metrics.engine_threads.set(working)

    def restarted(self) -> None:
        """Count an engine thread that was replaced."""
        self._metrics.engine_restarts_total.inc()

    def queue_changed(self, documents: int, tokens: int) -> None:
        """Show what is queued now."""
        self._metrics.queue_documents.set(documents)
        self._metrics.queue_tokens.set(tokens)

    def answered(self, answer: Answer | Problem) -> None:
        """Count one document of a request."""
        if isinstance(answer, Problem):
            self._failed(answer)
            return
        self._timed(answer)
        self._predicted(answer)
        if answer.model.manifest.skips:
            self._skipped(answer)

    def _labels(self, lane: Lane) -> tuple[str, str, str]:
        name, _, _ = lane.model.partition("@")
        return name, lane.reading, str(lane.bucket)

    def _failed(self, problem: Problem) -> None:
        if isinstance(problem, DocumentProblem):
            self._metrics.failed_documents_total.labels(problem.slug).inc()
        if isinstance(problem, DeadlineExceeded):
            self._metrics.deadline_misses_total.inc()

    def _timed(self, answer: Answer) -> None:
        name = answer.model.manifest.name
        stages = self._metrics.stage_seconds
        stages.labels(name, "tokenize").observe(answer.tokenize_seconds)
        stages.labels(name, "queue").observe(answer.reading.queue_seconds)
        stages.labels(name, "run").observe(answer.reading.run_seconds)
        if predicted := answer.reading.predicted_queue_seconds:
            ratio = answer.reading.queue_seconds / predicted
            self._metrics.queue_prediction_ratio.labels(name).observe(ratio)

    def _predicted(self, answer: Answer) -> None:
        name = answer.model.manifest.name
        token_ids = answer.text.token_ids
        self._metrics.documents_total.labels(name).inc()
        if answer.partial:
            self._metrics.partial_documents_total.labels(name).inc()
        if answer.words_before:
            self._metrics.continued_documents_total.labels(name).inc()
        self._metrics.tokens_total.labels(name).inc(len(token_ids))
        unknown = np.count_nonzero(token_ids == answer.model.manifest.unknown_id)
        self._metrics.unknown_tokens_total.labels(name).inc(int(unknown))
        self._metrics.predictions_total.labels(name, answer.model.manifest.labels[answer.winner]).inc()
        self._metrics.confidence.labels(name).observe(float(answer.probabilities[answer.winner]))

    def _skipped(self, answer: Answer) -> None:
        name = answer.model.manifest.name
        skipped = answer.reading.steps["skipped"]
        self._metrics.skip_rate.labels(name).observe(float(skipped.mean()))
        self._metrics.words_skipped_total.labels(name).inc(int(skipped.sum()))
        self._metrics.words_read_total.labels(name).inc(int((~skipped).sum()))
