"""A host whose operator looks at everything: kept answers, Triton's metrics, the request log, traces, profiles."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from e2e.conftest import Publisher
from support.hosts import RunningHost, running_host
from support.living_host import adding
from support.waiting import wait_until

collector = pytest.importorskip(
    "opentelemetry.proto.collector.trace.v1.trace_service_pb2", reason="needs the extra 'traces'"
)

pytestmark = pytest.mark.slow

NAME = "acme.kept"
ASKED = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}]}
TRACE = "0af7651916cd43dd8448eb211c80319c"


class Collector(ThreadingHTTPServer):
    """Takes spans as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = collector.ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        self.server.spans += [span for r in sent.resource_spans for s in r.scope_spans for span in s.spans]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def spans() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def host(lasting: Publisher, spans: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    settings = {
        "SANDSEAL_CACHE_MIB": "8",
        "SANDSEAL_TRITON_METRICS": "true",
        "SANDSEAL_LOG_REQUESTS": "all",
        "SANDSEAL_LOG_FORMAT": "json",
        "SANDSEAL_TRACES_URL": spans.url,
        "SANDSEAL_PROFILE_SLOWER_S": "0.000001",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    with running_host(lasting.trust, tmp_path_factory.mktemp("observed") / "data", settings) as running:
        with running.client() as client:
            client.push(lasting.seal(adding(1), NAME, model_members={"cache": True}))
        yield running


@pytest.fixture(scope="module")
def answers(host: RunningHost) -> list[httpx.Response]:
    """To the same request twice."""
    headers = {"authorization": f"Bearer {host.token}", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
    with httpx.Client(base_url=host.url, headers=headers, timeout=60) as client:
        return [
            client.post(f"/v2/models/{NAME}/infer", json=ASKED, headers={"x-request-id": name}) for name in ("r1", "r2")
        ]


def test_the_second_answer_is_the_first_one(answers: list[httpx.Response]) -> None:
    assert [answer.json()["outputs"][0]["data"] for answer in answers] == [[2, 3]] * 2
    timings = [[entry.split(";")[0] for entry in a.headers["server-timing"].split(", ")] for a in answers]
    assert timings == [["cache-miss", "queue", "run"], ["cache-hit"]]
    assert [answer.headers["x-request-id"] for answer in answers] == ["r1", "r2"]


def test_metrics_have_both_sorts_of_names(host: RunningHost, answers: list[httpx.Response]) -> None:
    with host.client() as client:
        lines = client.get("/metrics").decode().splitlines()
    at = f'{{model="{NAME}",version="1"}}'
    for line in (
        f"nv_inference_request_success{at} 2",
        f"nv_inference_exec_count{at} 1",
        f"nv_cache_num_hits_per_model{at} 1",
        f"nv_cache_num_misses_per_model{at} 1",
        f"sandseal_model_cache_hits_total{at} 1.0",
        "sandseal_cache_answers 1.0",
        'sandseal_slo_met_total{class="standard",tenant="default"} 2.0',
        "# TYPE nv_inference_queue_duration_us counter",
    ):
        assert line in lines, line


def test_statistics_tell_hits_and_misses(host: RunningHost, answers: list[httpx.Response]) -> None:
    with host.client() as client:
        (found,) = json.loads(client.get(f"/v2/models/{NAME}/stats"))["model_stats"]
    counts = {what: each["count"] for what, each in found["inference_stats"].items()}
    assert [counts[what] for what in ("success", "compute_infer", "cache_hit", "cache_miss")] == [2, 1, 1, 1]


def test_each_request_has_its_line(host: RunningHost, answers: list[httpx.Response]) -> None:
    def requests() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in host.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["logger"] == "sandseal.requests"]

    wait_until(lambda: len(requests()) >= 2)
    told = requests()
    assert [(line["request_id"], line["trace_id"], line["verdict"]) for line in told] == [
        ("r1", TRACE, "ok"),
        ("r2", TRACE, "ok"),
    ]
    assert told[0]["bundle"] == answers[0].headers["sandseal-bundle"]


def test_spans_reach_a_collector(spans: Collector, answers: list[httpx.Response]) -> None:
    wait_until(lambda: sum(span.name == "request" for span in spans.spans) == 2)
    names = sorted(span.name for span in spans.spans)
    assert names == ["cache-hit", "cache-miss", "queue", "request", "request", "run"]
    assert {span.trace_id.hex() for span in spans.spans} == {TRACE}


def test_a_slow_request_leaves_a_profile(host: RunningHost, answers: list[httpx.Response]) -> None:
    with host.client() as client:
        kept = wait_until(lambda: json.loads(client.get("/v1/profiles"))["profiles"])
        assert (kept[0]["model"], kept[0]["request_id"]) == (NAME, "r1")
        document = json.loads(client.get(f"/v1/profiles/{kept[0]['id']}"))
    assert "MainThread" in [profile["name"] for profile in document["profiles"]]
