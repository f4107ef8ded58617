"""Traces through OpenTelemetry: a span for each inference, and in it one for each of its stages."""

from time import monotonic, time_ns
from typing import Any, Self

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sandseal_host.observe.finished import Finished

_CONTEXT = TraceContextTextMapPropagator()


class Tracer:
    """Turns finished inferences into spans.

    A request that comes with a `traceparent` is traced where its caller traces it. Spans are made when all is over, so
    that nothing waits for them; what lies between the stages, such as hand-overs of threads, is seen as the gap at
    their end.

    Args:
        processor: takes the spans.
        share: of the requests without a `traceparent` that are traced.
    """

    def __init__(self, processor: SpanProcessor, share: float = 1.0) -> None:
        self._share = _Share(share)
        self._provider = TracerProvider(
            sampler=ParentBased(self._share),
            resource=Resource.create({"service.name": "sandseal"}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("sandseal")

    @classmethod
    def to(cls, url: str, share: float) -> Self:
        """A tracer that sends to a collector, by OTLP over HTTP, from a thread of its own."""
        return cls(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)), share)

    @property
    def share(self) -> float:
        """The part of the requests without a `traceparent` that are traced; may be changed."""
        return self._share.sampler.rate

    @share.setter
    def share(self, share: float) -> None:
        self._share.sampler = TraceIdRatioBased(share)

    def __call__(self, finished: Finished) -> None:
        """Trace an inference."""
        clock = time_ns() - round(1e9 * monotonic())
        parent = _CONTEXT.extract({"traceparent": finished.traceparent}) if finished.traceparent else None
        started = clock + round(1e9 * finished.arrived)
        span = self._tracer.start_span("request", parent, SpanKind.SERVER, start_time=started)
        if span.is_recording():
            _describe(span, finished)
            at, context = clock + round(1e9 * finished.asked), set_span_in_context(span)
            for stage, seconds in finished.timings.items():
                end = at + round(1e9 * seconds)
                self._tracer.start_span(stage, context, start_time=at).end(end)
                at = end
        span.end(clock + round(1e9 * finished.ended))

    def close(self) -> None:
        """Send what is left, and end; blocks."""
        self._provider.shutdown()


class _Share(Sampler):
    """Samples a share that may change; the SDK fixes its own samplers for good."""

    def __init__(self, share: float) -> None:
        self.sampler = TraceIdRatioBased(share)

    def should_sample(self, *arguments: Any, **more: Any) -> SamplingResult:
        return self.sampler.should_sample(*arguments, **more)

    def get_description(self) -> str:
        return self.sampler.get_description()


def _describe(span: Span, finished: Finished) -> None:
    span.set_attributes(
        {
            "http.response.status_code": finished.status,
            "sandseal.verdict": finished.verdict,
            "sandseal.model": finished.model,
            "sandseal.version": finished.version,
            "sandseal.bundle": finished.bundle,
            "sandseal.class": finished.service_class,
            "sandseal.tenant": finished.tenant,
            "sandseal.request_id": finished.request_id,
        }
    )
    if finished.status >= 500:
        span.set_status(StatusCode.ERROR, finished.verdict)
