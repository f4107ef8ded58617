"""Every limit that a client can meet has a setting, and whoever passes it is told so: one host with small limits."""

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import grpc
import httpx
import numpy as np
import pytest

from sandseal_host.settings import Settings
from sandseal_sdk.errors import HostFailed
from sandseal_sdk.hosts.seal_index import SealIndex
from support.hosts import RunningHost, running_host
from support.onnx_models import mlp
from support.waiting import wait_until

pytestmark = pytest.mark.slow

MIB = 1 << 20
INFER = "/v2/models/acme.mlp/infer"
SMALL = {
    "MAX_BODY_MIB": 2, "MAX_JSON_MIB": 1, "MAX_JSON_VALUES": 1000, "MAX_JSON_DEPTH": 8, "MAX_RATIO": 10,
    "MAX_HEAD_KIB": 4, "MAX_HEADERS": 20, "MAX_CONNECTIONS": 24, "SLOW_S": 1, "SLOW_BYTES_S": 1000,
    "MAX_UPLOADS": 1, "MAX_TRANSFERS": 1, "MAX_BUNDLE_MIB": 3, "MAX_OFFERS": 1, "MAX_OFFERED_MIB": 2, "GRPC_PORT": 0,
}  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """A host with small limits, and what is asked of it.

    Args:
        web: with the operator's token.
        small, large: archives of 0.2 and 2.1 MiB; `huge` has 4.
    """

    host: RunningHost
    web: httpx.Client
    small: Path
    large: Path
    huge: Path

    def post(self, path: str = INFER, content: bytes = b"", **headers: str) -> httpx.Response:
        """An answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.web.post(path, content=content, headers=named)

    def begin(
        self, stack: ExitStack, path: str, length: int, start: bytes = b"", method: str = "POST"
    ) -> socket.socket:
        """A request whose body stands still after its start."""
        peer = stack.enter_context(closing(socket.create_connection(("127.0.0.1", self.host.port), timeout=60)))
        head = f"{method} {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {self.host.token}\r\n"
        peer.sendall(f"{head}Content-Length: {length}\r\n\r\n".encode() + start)
        return peer

    def offer(self, stack: ExitStack, seal: Path) -> httpx.Response:
        """An offer of an archive, which is withdrawn in the end."""
        answer = self.post("/v1/bundles/offers", SealIndex.read(seal).head)
        if answer.status_code == 200:
            stack.callback(self.web.delete, f"/v1/bundles/offers/{answer.json()['id']}")
        return answer


def body(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post(content=bytes(2 * MIB + 1))


def json_bytes(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post(content=b'{"inputs": []' + b" " * MIB + b"}")


def json_values(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post(content=json.dumps({"inputs": [0] * 1002}).encode())


def json_depth(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post(content=b'{"inputs":' + b"[" * 9 + b"]" * 9 + b"}")


def ratio(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post(content=gzip.compress(b" " * (3 * MIB // 2)), content_encoding="gzip")


def head_bytes(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post(x="x" * 4096)


def headers(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post(**{f"x_{number}": "x" for number in range(20)})


def connections(at: Setting, stack: ExitStack) -> httpx.Response:
    def fill() -> None:
        for _ in range(24):
            at.begin(stack, INFER, 10)

    return beside(fill, lambda: httpx.get(f"{at.host.url}/v2/health/live"))


def slow(at: Setting, stack: ExitStack) -> bytes:
    return read_all(at.begin(stack, INFER, 10))


def trickling(at: Setting, stack: ExitStack) -> bytes:
    peer, end = at.begin(stack, INFER, MIB), threading.Event()
    stack.callback(end.set)

    def trickle() -> None:
        while not end.wait(0.05):
            try:
                peer.sendall(b" ")
            except OSError:
                return

    threading.Thread(target=trickle, daemon=True).start()
    return read_all(peer)


def uploads(at: Setting, stack: ExitStack) -> httpx.Response:
    whole = at.small.read_bytes()
    return beside(
        lambda: at.begin(stack, "/v1/bundles", len(whole), whole[:20_000]), lambda: at.post("/v1/bundles", whole)
    )


def transfers(at: Setting, stack: ExitStack) -> httpx.Response:
    offer = at.offer(stack, at.small).json()
    blob = offer["missing"][0]
    path = f"/v1/blobs/sha256/{blob['digest']}?offer={offer['id']}"
    return beside(lambda: at.begin(stack, path, blob["size"], b"x", "PUT"), lambda: at.web.put(path, content=b""))


def bundle(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.post("/v1/bundles", at.huge.read_bytes())


def offers(at: Setting, stack: ExitStack) -> httpx.Response:
    assert at.offer(stack, at.small).status_code == 200
    return at.offer(stack, at.large)


def offered(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.offer(stack, at.large)


def offered_bundle(at: Setting, stack: ExitStack) -> httpx.Response:
    return at.offer(stack, at.huge)


def beside(begin: Callable[[], object], ask: Callable[[], httpx.Response]) -> httpx.Response:
    """What is asked while something else stands still, which takes a while to begin, and is not kept for long."""
    for wait_s in (0.1, 0.2, 0.4, 0.8) * 5:
        begin()
        time.sleep(wait_s)
        if (answer := ask()).status_code == 503:
            break
    return answer


def read_all(peer: socket.socket) -> bytes:
    with peer.makefile("rb") as file:
        return file.read()


LIMITS = [
    ("max_body_mib", body, 413, "too_large"),
    ("max_json_mib", json_bytes, 413, "too_large"),
    ("max_json_values", json_values, 413, "too_large"),
    ("max_json_depth", json_depth, 400, "request_invalid"),
    ("max_ratio", ratio, 413, "too_large"),
    ("max_head_kib", head_bytes, 431, "headers_too_large"),
    ("max_headers", headers, 431, "headers_too_large"),
    ("max_connections", connections, 503, "connections_full"),
    ("slow_s", slow, 408, "too_slow"),
    ("slow_bytes_s", trickling, 408, "too_slow"),
    ("max_uploads", uploads, 503, "queue_full"),
    ("max_transfers", transfers, 503, "queue_full"),
    ("max_bundle_mib", bundle, 413, "too_large"),
    ("max_bundle_mib", offered_bundle, 413, "too_large"),
    ("max_offers", offers, 413, "quota_exceeded"),
    ("max_offered_mib", offered, 413, "quota_exceeded"),
]
ELSEWHERE = {
    "max_rows": "tests/api/test_infer.py",
    "max_delay_us": "tests/serving/test_scheduler.py",
    "max_queue": "tests/serving/test_lane.py",
    "max_context": "tests/serving/generation",
    "max_sequences": "tests/serving/test_sequences.py",
    "pending_mib": "tests/registry/test_pending.py",
    "disk_reserve_mib": __file__,
}


@pytest.fixture(scope="module")
def at(lasting) -> Iterator[Setting]:
    hidden = {"acme.small": 384, "acme.large": 3900, "acme.huge": 7500}
    seals = [lasting.seal(mlp((128, width, 10)), name) for name, width in hidden.items()]
    settings = {f"SANDSEAL_{name}": str(value) for name, value in SMALL.items()}
    with running_host(lasting.trust, lasting.folder / "data", settings) as host:
        with host.client() as client:
            client.push(lasting.seal(mlp()))
        with httpx.Client(base_url=host.url, headers={"authorization": f"Bearer {host.token}"}, timeout=60) as web:
            yield Setting(host, web, *seals)


@pytest.mark.parametrize(
    ("setting", "exceed", "status", "code"), LIMITS, ids=lambda value: getattr(value, "__name__", value)
)
def test_whoever_passes_a_limit_is_told(at, setting, exceed, status, code):
    with ExitStack() as stack:
        told = exceed(at, stack)
    if isinstance(told, bytes):
        head, _, content = told.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        document = json.loads(content)
    else:
        assert told.status_code == status, told.text
        document = told.json()
        assert ("retry-after" in told.headers) is (status == 503)
    assert document["code"] == code
    assert document["error"]
    assert document["hint"]
    with at.host.client() as client:
        assert client.infer("acme.mlp", {"x": np.ones((1, 128), np.float32)})["y"].shape == (1, 10)


def test_calls_over_grpc(at):
    end, token = threading.Event(), (("authorization", f"Bearer {at.host.token}"),)
    service, alone = "/inference.GRPCInferenceService", [("grpc.use_local_subchannel_pool", 1)]
    address = f"127.0.0.1:{at.host.grpc_port}"
    with grpc.insecure_channel(address, alone) as channel, grpc.insecure_channel(address, alone) as other:
        stream, live = channel.stream_stream(f"{service}/ModelStreamInfer"), other.unary_unary(f"{service}/ServerLive")
        held = []

        def refused() -> bool:
            if not any(call.is_active() for call in held):  # each has a second to send its message
                held[:] = [stream(iter(end.wait, True), metadata=token) for _ in range(SMALL["MAX_CONNECTIONS"])]
            try:
                live(b"", timeout=60)
            except grpc.RpcError as error:
                return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            return False

        wait_until(refused)
        end.set()
        for call in held:
            call.cancel()


def test_a_client_that_does_not_read_is_cut_off(at):
    asked = b'{"inputs":[]}'
    head = f"POST {INFER} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(asked)}\r\n\r\n".encode()

    def send_for_ever(deaf: socket.socket) -> None:
        while True:
            deaf.sendall((head + asked) * 100)

    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.settimeout(60)
        deaf.connect(("127.0.0.1", at.host.port))
        with pytest.raises(ConnectionError):
            send_for_ever(deaf)


def test_the_disk_s_reserve(publisher, tmp_path):
    seal, settings = publisher.seal(mlp()), {"SANDSEAL_DISK_RESERVE_MIB": "1000000000"}
    with running_host(publisher.trust, tmp_path / "data", settings) as host, host.client() as client:
        for push in (client.push, client.push_offer):
            with pytest.raises(HostFailed) as refused:
                push(seal)
            assert refused.value.code == "store_failed"
        assert client.bundles() == []


def test_no_limit_is_left_out():
    named = {name for name in Settings.model_fields if re.match("max_|slow_|pending_mib|disk_reserve", name)}
    assert named == {setting for setting, *_ in LIMITS} | ELSEWHERE.keys()
