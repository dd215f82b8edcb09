"""OpenTelemetry spans of requests and tool calls; imported only when tracing is on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lookfar import __version__
from lookfar.errors import InvalidConfig
from lookfar.serve.http.visits import Visit


class Traces:
    """Creates spans with the official packages, which only this class imports."""

    def __init__(self) -> None:
        try:
            from opentelemetry import propagate, trace
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise InvalidConfig(
                "serve.traces is on, but the OpenTelemetry packages are not installed.",
                hint="Install them: pip install 'lookfar[otel]'",
                developer=str(error),
            ) from error
        resource = Resource.create({"service.name": "lookfar", "service.version": __version__})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("lookfar", __version__)
        self._extract = propagate.extract
        self._server = trace.SpanKind.SERVER

    @contextmanager
    def request(
        self, visit: Visit, scope: Mapping[str, Any], route: Callable[[], str]
    ) -> Iterator[None]:
        """Open a span for a request, as a child of the client's span if it sent one."""
        headers = scope["headers"]
        parent = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        with self._tracer.start_as_current_span(
            visit.method, self._extract(parent), kind=self._server
        ) as span:
            try:
                yield
            finally:
                span.update_name(f"{visit.method} {route()}")
                span.set_attribute("http.request.method", visit.method)
                span.set_attribute("http.route", route())
                span.set_attribute("http.response.status_code", visit.status)
                span.set_attribute("lookfar.request_id", visit.id)

    @contextmanager
    def call(self, tool: str) -> Iterator[None]:
        with self._tracer.start_as_current_span(tool):
            yield

    def close(self) -> None:
        self._provider.shutdown()
