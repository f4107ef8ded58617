"""What the clients send, what they make of answers, and when they ask again."""

import asyncio
import base64
import json
import select
import socket
import threading
from dataclasses import dataclass

import numpy as np
import pytest

import sandseal_sdk
from sandseal_sdk import AsyncClient, Client, Patience, Tls
from sandseal_sdk import errors as e
from sandseal_sdk.hosts import events
from sandseal_sdk.hosts.events import EventParser
from support.scripted_host import Scripted, document, scripted_host

QUICK = Patience(tries=3, first_s=0.001, longest_s=0.002)
BUSY = document({"error": "full", "code": "queue_full"}, 503, Retry_After="0.01")
ROW = np.ones((1, 2), np.float32)


def outputs(**arrays: np.ndarray) -> Scripted:
    """An inference's answer in binary form."""
    described = [
        {"name": name, "datatype": "FP32", "shape": array.shape, "parameters": {"binary_data_size": array.nbytes}}
        for name, array in arrays.items()
    ]
    head = json.dumps({"outputs": described}).encode()
    body = head + b"".join(array.tobytes() for array in arrays.values())
    return Scripted(200, (body,), {"Inference-Header-Content-Length": str(len(head))})


def ask(kind, host, act, **options):
    """The result of `act(client)` with a client of this kind; `act` says which method is called."""
    if kind == "sync":
        with Client(host.url, "secret", patience=QUICK, **options) as client:
            return act(client)

    async def later():
        async with AsyncClient(host.url, "secret", patience=QUICK, **options) as client:
            return await act(client)

    return asyncio.run(later())


def both(host, act, **options):
    """The results with either client."""
    return tuple(ask(kind, host, act, **options) for kind in ("sync", "async"))


def refusals(act, *answers, **options):
    """What either client raises on these answers, which each gets."""
    raised = []
    for kind in ("sync", "async"):
        with scripted_host(*answers) as host, pytest.raises(e.SdkError) as error:
            ask(kind, host, act, **options)
        raised.append(error.value)
    return raised


def test_the_package_has_the_clients_without_importing_them():
    assert sandseal_sdk.__all__ == ["AsyncClient", "Client", "Patience", "Tls"]
    assert Client.__module__ == "sandseal_sdk.client"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        sandseal_sdk.Nothing  # noqa: B018


class TestInference:
    def test_binary_both_ways_and_the_time_that_is_left(self):
        with scripted_host(outputs(y=2 * ROW), outputs(y=2 * ROW)) as host:
            for result in both(host, lambda client: client.infer("a/b", {"x": ROW}, version=3, timeout=5.0)):
                np.testing.assert_array_equal(result["y"], 2 * ROW)
                result["y"][0] = 0  # its own memory
        for asked in host.asked:
            assert (asked.method, asked.path) == ("POST", "/v2/models/a%2Fb/versions/3/infer")
            assert asked.headers["authorization"] == "Bearer secret"
            assert asked.headers["x-request-id"]
            at = int(asked.headers["inference-header-content-length"])
            head = json.loads(asked.body[:at])
            assert head["inputs"] == [
                {"name": "x", "datatype": "FP32", "shape": [1, 2], "parameters": {"binary_data_size": 8}}
            ]
            assert head["parameters"]["binary_data_output"] is True
            assert 4_000_000 < head["parameters"]["timeout"] <= 5_000_000
            assert asked.body[at:] == ROW.tobytes()

    def test_what_a_caller_says_stands(self):
        with scripted_host(outputs(), outputs()) as host:
            both(host, lambda c: c.infer("m", {}, outputs=["y"], parameters={"timeout": 7, "priority": 1}))
        for asked in host.asked:
            head = json.loads(asked.body)
            assert (head["outputs"], head["parameters"]["timeout"]) == ([{"name": "y"}], 7)
            assert head["parameters"]["priority"] == 1

    def test_large_inputs_arrive_whole(self):
        large = np.arange(300_000, dtype=np.float32).reshape(3, -1)
        with scripted_host(outputs(y=large), outputs(y=large)) as host:
            for result in both(host, lambda client: client.infer("m", {"x": large, "z": ROW})):
                np.testing.assert_array_equal(result["y"], large)
        for asked in host.asked:
            assert asked.body.endswith(large.tobytes() + ROW.tobytes())

    def test_plain_bodies(self):
        answer = document({"outputs": []}, Server_Timing="queue;dur=0.5, run;dur=2")
        with scripted_host(answer, answer) as host:
            for result in both(host, lambda client: client.call("m", b"image", "image/png", version=2)):
                assert result == {"outputs": [], "timings": {"queue": 0.5, "run": 2.0}}
        assert [(asked.path, asked.body) for asked in host.asked] == [("/v1/models/m/call?version=2", b"image")] * 2

    def test_parameters_of_plain_bodies(self):
        with scripted_host(*[document({"outputs": {}})] * 2) as host:
            both(host, lambda client: client.call("m", b"image", parameters={"top_k": 3}))
        lead = b'{"parameters": {"top_k": 3}}'
        for asked in host.asked:
            assert asked.body == lead + b"image"
            assert asked.headers["inference-header-content-length"] == str(len(lead))

    def test_receipts(self):
        with scripted_host(*[document({}, Sandseal_Receipt="signed")] * 2) as host:
            assert both(host, lambda client: client.call_with_receipt("m", b"", "n")) == ((b"{}", b"signed"),) * 2
        assert host.asked[0].headers["sandseal-receipt"] == "n"
        for error in refusals(lambda client: client.call_with_receipt("m", b"", "n"), document({})):
            assert isinstance(error, e.AnswerInvalid)

    def test_text(self):
        with scripted_host(*[document({"text_output": "there"})] * 2) as host:
            for result in both(host, lambda client: client.generate("m", "hello", parameters={"max_tokens": 3})):
                assert result == {"text_output": "there"}
        asked = json.loads(host.asked[0].body)
        assert (host.asked[0].path, asked["text_input"]) == ("/v2/models/m/generate", "hello")
        assert asked["parameters"]["max_tokens"] == 3
        assert asked["parameters"]["timeout"] <= 60_000_000


class TestStreams:
    PIECES = (b'data: {"text_output": "a"}\n', b'\ndata: {"text_', b'output": "b"}\r\n\r\n: still here\n\n')

    def all_of(self, client):
        if isinstance(client, Client):
            return list(client.generate_stream("m", "hello"))

        async def collect():
            return [event async for event in client.generate_stream("m", "hello")]

        return collect()

    def test_events(self):
        with scripted_host(*[Scripted(200, self.PIECES)] * 2) as host:
            for events in both(host, self.all_of):
                assert [event["text_output"] for event in events] == ["a", "b"]
        assert host.asked[0].path == "/v2/models/m/generate_stream"

    def test_an_error_before_or_in_the_middle(self):
        middle = b'data: {"error": "lost", "code": "model_failed", "status": 500}\n\n'
        for answer in (document({"error": "lost", "code": "model_failed"}, 500), Scripted(200, (middle,))):
            for error in refusals(self.all_of, answer):
                assert isinstance(error, e.HostFailed)
                assert (error.message, error.code) == ("lost", "model_failed")
        for error in refusals(self.all_of, Scripted(200, (b"data: [1]\n\n",))):
            assert isinstance(error, e.AnswerInvalid)

    def test_a_busy_host_is_asked_again(self):
        with scripted_host(*[BUSY, Scripted(200, self.PIECES)] * 2) as host:
            for events in both(host, self.all_of):
                assert len(events) == 2

    @pytest.mark.parametrize("kind", ["sync", "async"])
    def test_leaving_the_loop_breaks_the_connection(self, kind):
        go = threading.Event()
        more = (b'data: {"text_output": "b"}\n\n' * 100_000,) * 3
        with scripted_host(Scripted(200, (self.PIECES[0] + b"\n", *more), go=go)) as host:
            if kind == "sync":
                with Client(host.url) as client:
                    for _ in client.generate_stream("m", "hello"):
                        break
                    go.set()
                    assert host.gone.wait(60)
            else:

                async def leave():
                    async with AsyncClient(host.url) as client:
                        stream = client.generate_stream("m", "hello")
                        async for _ in stream:
                            break
                        await stream.aclose()
                        go.set()
                        assert await asyncio.to_thread(host.gone.wait, 60)

                asyncio.run(leave())


class TestLargeAnswers:
    def test_no_more_is_read_than_the_client_takes(self):
        for error in refusals(lambda client: client.models(), Scripted(200, (b" " * 101,)), max_answer_bytes=100):
            assert isinstance(error, e.AnswerTooLarge)
            assert "101 bytes or more, over 100" in error.message
        with scripted_host(*[document([" " * 96])] * 2) as host:
            assert both(host, lambda client: client.models(), max_answer_bytes=100) == ([" " * 96],) * 2

    def test_an_answer_that_does_not_say_its_size(self):
        endless = Scripted(200, (b"x" * 65_536,) * 1_000, {"Connection": "close"}, sized=False)
        for error in refusals(lambda client: client.models(), endless, max_answer_bytes=1_000_000):
            assert isinstance(error, e.AnswerTooLarge)

    def test_refusals_too(self):
        for error in refusals(lambda client: client.models(), Scripted(400, (b"x" * 101,)), max_answer_bytes=100):
            assert isinstance(error, e.AnswerTooLarge)

    @pytest.mark.parametrize("piece", [b"data: x", b"data:\n", b"x"])
    def test_an_event_without_an_end(self, piece, monkeypatch):
        monkeypatch.setattr(events, "MAX_EVENT", 10_000)
        parser = EventParser()
        for _ in range(events.MAX_EVENT // len(piece)):
            assert list(parser.feed(piece)) == []
        with pytest.raises(e.AnswerTooLarge):
            list(parser.feed(piece))

    def test_comments_between_events_are_not_kept(self, monkeypatch):
        monkeypatch.setattr(events, "MAX_EVENT", 100)
        parser = EventParser()
        for _ in range(100):
            assert list(parser.feed(b": still here\n\n")) == []


class TestAgain:
    def test_a_busy_host_is_asked_again(self):
        for busy in (BUSY, document({"error": "slow down", "code": "rate_limited"}, 429)):
            with scripted_host(*[busy, busy, outputs(y=ROW)] * 2) as host:
                both(host, lambda client: client.infer("m", {"x": ROW}))
            assert len(host.asked) == 6
            assert len({asked.port for asked in host.asked}) == 2  # one connection each

    def test_not_more_often_than_patience_has_it(self):
        for error in refusals(lambda client: client.infer("m", {"x": ROW}), *[BUSY] * 9):
            assert isinstance(error, e.HostBusy)
            assert error.retry_after == 0.01

    def test_not_for_longer_than_the_call_may_take(self):
        late = document({"error": "full", "code": "queue_full"}, 503, Retry_After="3600")
        for error in refusals(lambda client: client.infer("m", {"x": ROW}, timeout=60.0), late, outputs(y=ROW)):
            assert error.retry_after == 3600

    @pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 410, 413, 500, 502, 504])
    def test_what_was_decided_is_not_asked_again(self, status):
        refusals(lambda client: client.infer("m", {"x": ROW}), document({"error": "no"}, status), outputs(y=ROW))

    def test_acts_are_sent_once(self):
        with scripted_host(BUSY, BUSY) as host, Client(host.url, patience=QUICK) as client:
            for act in (lambda: client.load("m"), lambda: client.issue_token("ci", ["infer"])):
                with pytest.raises(e.HostBusy):
                    act()
        assert len(host.asked) == 2

    def test_second_tries_have_a_budget(self):
        with scripted_host(*[BUSY] * 100) as host, Client(host.url, patience=QUICK) as client:
            for _ in range(20):
                with pytest.raises(e.HostBusy):
                    client.models()
        assert 30 <= len(host.asked) <= 33  # ten at once, and one for each ten calls

    def test_no_connection_is_tried_again(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]

        seen = []

        class Counting(Patience):
            def after(self, failures, error):
                seen.append(error)
                return super().after(failures, error)

        with Client(f"http://127.0.0.1:{port}", patience=Counting(3, 0.001)) as client, pytest.raises(e.NotConnected):
            client.models()
        assert len(seen) == 3
        seen.clear()

        async def later():
            async with AsyncClient(f"http://127.0.0.1:{port}", patience=Counting(3, 0.001)) as client:
                await client.models()

        with pytest.raises(e.NotConnected):
            asyncio.run(later())
        assert len(seen) == 3

    def test_a_connection_that_breaks_is_not(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            accepted = []

            def break_all():
                while True:
                    try:
                        peer, _ = server.accept()
                    except OSError:
                        return
                    accepted.append(1)
                    peer.recv(1000)
                    peer.close()

            thread = threading.Thread(target=break_all, daemon=True)
            thread.start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            with Client(url, patience=QUICK) as client, pytest.raises(e.HostUnreachable) as error:
                client.infer("m", {"x": ROW})
            assert type(error.value) is e.HostUnreachable
            assert len(accepted) == 1


class TestTime:
    @pytest.mark.parametrize("timeout", [float("inf"), 1e300, None])
    def test_no_end(self, timeout):
        with scripted_host(outputs(y=ROW), outputs(y=ROW), outputs(y=ROW), outputs(y=ROW)) as host:
            both(host, lambda client: client.infer("m", {"x": ROW}), timeout=timeout)
            both(host, lambda client: client.infer("m", {"x": ROW}, timeout=timeout), timeout=timeout)
        for asked in host.asked:
            assert "timeout" not in json.loads(asked.body[: int(asked.headers["inference-header-content-length"])])

    @pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("-inf"), 1e-300])
    def test_no_time(self, timeout):
        for error in refusals(lambda client: client.infer("m", {"x": ROW}, timeout=timeout)):
            assert isinstance(error, e.NoAnswer)

    def test_a_host_that_says_nothing(self):
        go = threading.Event()
        silent = Scripted(200, (b"", b"{}"), go=go)
        for error in refusals(lambda client: client.infer("m", {"x": ROW}, timeout=0.6), silent):
            assert isinstance(error, e.NoAnswer)
        go.set()

    def test_a_task_that_is_cancelled_breaks_its_connection(self):
        go = threading.Event()
        with scripted_host(Scripted(200, (b"{", *[bytes(1 << 20)] * 16), go=go)) as host:

            async def cancel():
                async with AsyncClient(host.url) as client:
                    task = asyncio.create_task(client.infer("m", {"x": ROW}))
                    await asyncio.to_thread(host.reached.wait, 60)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    go.set()
                    assert await asyncio.to_thread(host.gone.wait, 60)

            asyncio.run(cancel())


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "family"),
        [
            (400, e.RequestRefused), (401, e.NotAllowed), (403, e.NotAllowed), (404, e.NotFound),
            (408, e.DeadlinePassed), (409, e.HostConflict), (410, e.NotFound), (413, e.RequestRefused),
            (415, e.RequestRefused), (429, e.HostBusy), (500, e.HostFailed), (501, e.RequestRefused),
            (502, e.HostFailed), (503, e.HostBusy), (504, e.DeadlinePassed),
        ],
    )  # fmt: skip
    def test_families(self, status, family):
        answers = [document({"error": "no", "code": "some_code"}, status)] * 9
        for error in refusals(lambda client: client.models(), *answers):
            assert type(error) is family
            assert (error.status, error.code) == (status, "some_code")

    def test_the_host_s_code_hint_facts_and_request_are_kept(self):
        body = {"error": "no", "code": "queue_full", "hint": "later", "waiting": 7}
        answers = [document(body, 503, Retry_After="0.003", X_Request_Id="r1")] * 3
        for refused in refusals(lambda client: client.models(), *answers):
            assert (refused.message, refused.code, refused.hint) == ("no", "queue_full", "later")
            assert (refused.retry_after, refused.request_id, refused.data) == (0.003, "r1", {"waiting": 7})

    @pytest.mark.parametrize("name", ["status", "message", "facts", "retry_after", "data", "self", "where"])
    def test_facts_may_have_any_name(self, name):
        answer = document({"error": "no", "code": "input_refused", name: 1}, 400)
        for refused in refusals(lambda client: client.models(), answer):
            assert (refused.status, refused.data) == (400, {name: 1})

    @pytest.mark.parametrize("wait", ["\xb2", "9" * 400, "-1", "soon"])
    def test_a_time_to_wait_that_is_none_is_not_there(self, wait):
        answer = document({"error": "no"}, 400, Retry_After=wait)
        for refused in refusals(lambda client: client.models(), answer):
            assert (refused.message, refused.retry_after) == ("no", None)

    @pytest.mark.parametrize("status", [b'"x"', b"[]", b"null", b"1.5"])
    def test_an_event_with_an_odd_status_is_a_failure(self, status):
        with pytest.raises(e.HostFailed, match="no"):
            list(EventParser().feed(b'data: {"error":"no","status":%b}\n\n' % status))

    @pytest.mark.parametrize(
        "content",
        [b"", b"Bad Gateway", b"[]", b'"text"', b"{}", b'{"message":"x"}', b"\xff", b'{"error":{"message":"x"}}',
         b'{"error":"x","hint":[1]}'],
    )  # fmt: skip
    def test_answers_that_are_not_ours_are_told_as_they_are(self, content):
        for refused in refusals(lambda client: client.models(), Scripted(502, (content,))):
            assert (refused.status, refused.code) == (502, "unknown")
            assert refused.message
        for error in refusals(lambda client: client.infer("m", {"x": ROW}), Scripted(200, (content,))):
            assert isinstance(error, e.AnswerInvalid)


class TestConnections:
    @pytest.mark.parametrize("kind", ["sync", "async"])
    def test_one_that_the_host_has_closed_is_not_used_again(self, kind):
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
        with socket.create_server(("127.0.0.1", 0)) as server:

            def answer_each_once():
                for _ in range(2):
                    with server.accept()[0] as peer:
                        peer.recv(65_536)
                        peer.sendall(answer)

            thread = threading.Thread(target=answer_each_once)
            thread.start()
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            if kind == "sync":
                with Client(url) as client:
                    assert client.models() == []
                    ((idle, _),) = client._connection._pool._idle
                    assert select.select([idle.sock], [], [], 20)[0]
                    assert client.models() == []
            else:

                async def later():
                    async with AsyncClient(url) as client:
                        assert await client.models() == []
                        pool = client._connection._pool
                        async with asyncio.timeout(20):
                            while not all(idle.has_expired() for idle in pool.connections):  # noqa: ASYNC110
                                await asyncio.sleep(0.01)
                        assert await client.models() == []

                asyncio.run(later())
            thread.join()

    @pytest.mark.parametrize("kind", ["sync", "async"])
    def test_a_host_that_refuses_a_body_before_its_end_is_heard(self, kind):
        refusal = b'{"error": "too large", "code": "too_large"}'
        head = b"HTTP/1.1 413 No\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(refusal)
        with socket.create_server(("127.0.0.1", 0)) as server:

            def refuse():
                with server.accept()[0] as peer:
                    peer.recv(65_536)
                    peer.sendall(head + refusal)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(1 << 20):
                        pass

            thread = threading.Thread(target=refuse)
            thread.start()
            large = np.zeros((1, 2_000_000), np.float32)
            at = Target(f"http://127.0.0.1:{server.getsockname()[1]}")
            with pytest.raises(e.RequestRefused) as no:
                ask(kind, at, lambda client: client.infer("m", {"x": large}))
            assert no.value.code == "too_large"
            thread.join()

    def test_closing_ends_what_is_under_way(self):
        go = threading.Event()
        with scripted_host(Scripted(200, (b"", b"{}"), go=go)) as host:
            client = Client(host.url)
            raised = []

            def ask():
                try:
                    client.models()
                except e.SdkError as error:
                    raised.append(error)

            thread = threading.Thread(target=ask)
            thread.start()
            assert host.reached.wait(20)
            client.close()
            thread.join(20)
            go.set()
        assert [type(error) for error in raised] == [e.HostUnreachable]

    def test_no_more_than_it_may_open(self):
        go = threading.Event()
        held, free = Scripted(200, (b"", b"[]"), go=go), document([])
        with scripted_host(held, free) as host, Client(host.url, connections=1) as client:
            thread = threading.Thread(target=client.models)
            thread.start()
            assert host.reached.wait(20)
            with pytest.raises(e.NoAnswer, match="all connections"):
                client.infer("m", {"x": ROW}, timeout=0.1)
            go.set()
            thread.join(20)
            assert client.models() == []
        assert len({asked.port for asked in host.asked}) == 1

    def test_a_proxy_takes_the_whole_address(self, monkeypatch):
        with scripted_host(document([]), document([])) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:s%40cret@"))
            for kind in ("sync", "async"):
                ask(kind, Target("http://host.invalid:8000/gateway"), lambda client: client.models())
        for asked in proxy.asked:
            assert asked.path == "http://host.invalid:8000/gateway/v2/repository/index"
            assert asked.headers["host"] == "host.invalid:8000"
            assert asked.headers["authorization"] == "Bearer secret"
            assert base64.b64decode(asked.headers["proxy-authorization"].split()[1]) == b"me:s@cret"

    def test_a_proxy_that_opens_no_tunnel(self, monkeypatch):
        with scripted_host() as proxy:
            monkeypatch.setenv("https_proxy", proxy.url)
            for kind in ("sync", "async"):
                with pytest.raises(e.HostUnreachable):
                    ask(kind, Target("https://host.invalid"), lambda client: client.models())


@dataclass(frozen=True)
class Target:
    """Where a client is told to go."""

    url: str


def test_the_guide_s_example():
    refused = document({"error": "no", "code": "input_refused"}, 400)
    with scripted_host(outputs(y=ROW), Scripted(200, TestStreams.PIECES), refused) as host:
        url, token, rows = host.url, "secret", ROW
        from sandseal_sdk import Client
        from sandseal_sdk.errors import HostRefused

        with Client(url, token, timeout=10.0) as client:
            y = client.infer("acme.mlp", {"x": rows})["y"]
            for piece in client.generate_stream("acme.llm", "Once", parameters={"max_tokens": 20}):
                print(piece["text_output"], end="")
            try:
                client.infer("acme.mlp", {"x": rows}, timeout=2.0)
            except HostRefused as error:
                print(error.code, error.hint, error.request_id)
    assert y.shape == (1, 2)


def test_after_close_nothing_is_sent():
    with scripted_host() as host:
        client = Client(host.url)
        client.close()
        with pytest.raises(e.ClientClosed):
            client.models()

        async def later():
            client = AsyncClient(host.url)
            await client.close()
            await client.models()

        with pytest.raises(e.ClientClosed):
            asyncio.run(later())
    assert not host.asked


def test_a_prefix_in_the_address_stays():
    with scripted_host(document([])) as host, Client(f"{host.url}/gateway/") as client:
        client.models()
    assert host.asked[0].path == "/gateway/v2/repository/index"


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://host", "http://", "http://host:99999", "http://host:x", "http://" + 64 * "x"]
)
def test_what_is_no_address(url):
    with pytest.raises(e.HostUnreachable, match="no address"):
        Client(url)


def test_an_address_has_no_password():
    with pytest.raises(e.HostUnreachable, match="a password in it") as error:
        Client("http://me:secret@127.0.0.1:8000")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("token", ["two words", "line\n", "ä"])
def test_what_is_no_token(token):
    with pytest.raises(e.NotLoggedIn) as refused:
        Client("http://host", token)
    assert token not in str(refused.value)


def test_what_no_header_can_carry():
    for error in refusals(lambda client: client.call_with_receipt("m", b"", "two\nlines")):
        assert isinstance(error, e.HostUnreachable)


def test_tls_files(tmp_path):
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for wrong in (Tls(ca=tmp_path / "none"), Tls(ca=broken), Tls(certificate=broken), Tls(key=broken)):
        with pytest.raises(e.TlsFilesInvalid):
            Client("https://host", tls=wrong)
