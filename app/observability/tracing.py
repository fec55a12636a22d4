"""Traces for OpenTelemetry: a span for each request and one for each stage of it, never a document's text.

Off unless the setting ``traces_endpoint`` names a collector; the extra ``otel`` brings what is needed.
Sampling, headers and resource attributes are the SDK's own ``OTEL_*`` variables.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from app.errors import StartError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

TRACEPARENT = "traceparent"  # of W3C Trace Context, like the next
TRACERESPONSE = "traceresponse"
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_EXPORT_SECONDS = 2  # of one batch: the collector is near
_CLOSE_SECONDS = 3
_SECOND_NS = 1_000_000_000

Attributes = Mapping[str, str | int]


def trace_id_of(traceparent: str) -> str | None:
    """The trace that a caller's header names; None where it is missing or malformed."""
    found = _TRACEPARENT.fullmatch(traceparent)
    return None if found is None else found[1]


class Tracing:
    """Where spans go."""

    def __init__(self, exporter: SpanExporter) -> None:
        """Send spans in batches, from a thread; what the exporter cannot take in time is dropped."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        name = os.environ.get("OTEL_SERVICE_NAME", "readtrace")
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": name}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("readtrace")

    def begin(self, method: str, traceparent: str) -> RequestSpan:
        """Begin the span of a request, within the caller's trace where it names one."""
        from opentelemetry import trace

        context = None
        if found := _TRACEPARENT.fullmatch(traceparent):
            parent = trace.SpanContext(
                int(found[1], 16),
                int(found[2], 16),
                is_remote=True,
                trace_flags=trace.TraceFlags(int(found[3], 16)),
            )
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
        span = self._tracer.start_span(method, context, trace.SpanKind.SERVER)
        span.set_attribute("http.request.method", method)
        return RequestSpan(self._tracer, span, method)

    def close(self) -> None:
        """Send what was not sent yet, for as long as the end of the process can wait."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)


class RequestSpan:
    """The span of one request."""

    def __init__(self, tracer: Any, span: Any, method: str) -> None:
        self._tracer = tracer
        self._span = span
        self._method = method

    @property
    def trace_id(self) -> str:
        """The trace, as the log has it."""
        return f"{self._span.get_span_context().trace_id:032x}"

    @property
    def traceresponse(self) -> str:
        """The header that tells the caller under which span to look."""
        context = self._span.get_span_context()
        return f"00-{self.trace_id}-{context.span_id:016x}-{int(context.trace_flags):02x}"

    def add_stages(self, seconds: Mapping[str, float], attributes: Attributes) -> None:
        """Add a span for each stage, one after the other, the last ending now.

        The lengths are measured; queue and runs of a document alternate, and each is one span here.
        """
        from opentelemetry import trace

        for name, value in attributes.items():
            self._span.set_attribute(name, value)
        context = trace.set_span_in_context(self._span)
        begin = time.time_ns() - int(sum(seconds.values()) * _SECOND_NS)
        for stage, duration in seconds.items():
            span = self._tracer.start_span(stage, context, start_time=begin)
            begin += int(duration * _SECOND_NS)
            span.end(begin)

    def end(self, route: str, status: int) -> None:
        """End the span of a request that was answered on a route."""
        from opentelemetry import trace

        self._span.update_name(f"{self._method} {route}")
        self._span.set_attribute("http.route", route)
        self._span.set_attribute("http.response.status_code", status)
        if status >= 500:
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()


def open_tracing(endpoint: str | None) -> Tracing | None:
    """Tracing to a collector's OTLP/HTTP address; None where there is none.

    Raises:
        StartError: the extra ``otel`` is not installed.
    """
    if endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise StartError(
            "setting traces_endpoint needs OpenTelemetry: in the checkout, pip install -c constraints.txt '.[cpu,otel]'"
        ) from error
    return Tracing(OTLPSpanExporter(endpoint, timeout=_EXPORT_SECONDS))
