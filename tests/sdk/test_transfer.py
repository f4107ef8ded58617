"""Pushing as an offer: what is sent, where it goes on, and when it gives up."""

import io
import json
import threading

import pytest

from sandseal_sdk.errors import HostRefused, HostUnreachable
from sandseal_sdk.hosts.answer import Answer
from sandseal_sdk.hosts.patience import Patience
from sandseal_sdk.hosts.seal_index import SealIndex
from sandseal_sdk.hosts.transfer import OfferPush
from sandseal_signing.digest import Digest
from sandseal_signing.errors import SealInvalid, Unsigned
from sandseal_signing.keys import PrivateKey
from sandseal_signing.seal import SealReader
from support.bundles import FILES, archive, members, seal

KEY = PrivateKey.generate()
BLOBS = {Digest.of(content).hex: content for content in FILES.values()}
QUICK = Patience(tries=3, first_s=0.001)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tiny.seal"
    path.write_bytes(seal([KEY]))
    return path


class Host:
    """Takes offers; `faults` are raised, one a request, before anything happens."""

    def __init__(self) -> None:
        self.blobs = dict.fromkeys(BLOBS, b"")
        self.faults: dict[str, list[Exception]] = {}
        self.asked: list[str] = []
        self.guard = threading.Lock()
        self.lose = 0  # of how many pieces only half arrives

    def send(self, call, waits=None):
        method, path, content, headers = call.method, call.path, call.content, call.headers
        with self.guard:
            self.asked.append(what := f"{method} {path.split('?')[0].rpartition('/')[2]}")
            if faults := self.faults.get(what.split()[0] if method in ("PUT", "HEAD") else what):
                raise faults.pop(0)
            return getattr(self, f"_{method.lower()}")(path, content, headers)

    def _post(self, path, content, headers):
        missing = [
            {"digest": digest, "size": len(BLOBS[digest]), "offset": len(there)}
            for digest, there in self.blobs.items()
            if len(there) < len(BLOBS[digest])
        ]
        if path.endswith("/offers"):
            SealReader(io.BytesIO(content)).signatures()
            return answer({"id": "f" * 64, "missing": missing})
        if missing:
            raise refusal(409, "offer_incomplete")
        return answer({"state": "ready"})

    def _put(self, path, content, headers):
        digest = path.split("/")[4].split("?")[0]
        begin, end = map(int, headers["Content-Range"].split()[1].split("/")[0].split("-"))
        assert begin == len(self.blobs[digest])
        data = b"".join(content)
        assert len(data) == end + 1 - begin
        if self.lose:
            self.lose -= 1
            self.blobs[digest] += data[: len(data) // 2]
            raise HostUnreachable("gone")
        self.blobs[digest] += data
        return answer({"offset": len(self.blobs[digest])})

    def _head(self, path, content, headers):
        digest = path.split("/")[4].split("?")[0]
        return Answer(200, {"upload-offset": str(len(self.blobs[digest]))}, b"")


def answer(document):
    return Answer(200, {}, json.dumps(document).encode())


def refusal(status, code, retry_after=None):
    return HostRefused(code, status=status, code=code, retry_after=retry_after)


def push(host, file, patience=QUICK):
    told = []
    answer = OfferPush(host.send, file, told.append, patience=patience).run()
    assert host.blobs == BLOBS
    assert sum(told) == sum(map(len, BLOBS.values()))
    assert answer == {"state": "ready"}
    return host.asked


def test_an_index_finds_every_blob_without_reading_it(file):
    index = SealIndex.read(file)
    assert {digest: b"".join(index.content(digest, 0, size)) for digest, (_, size) in index.places.items()} == BLOBS
    assert b"".join(index.content(Digest.of(FILES["model.onnx"]).hex, 3, 7)) == FILES["model.onnx"][3:7]
    assert file.read_bytes().startswith(index.head)
    assert len(index.head) % 512 == 0


def test_an_index_needs_a_signature_and_the_signed_order(file):
    parts = members(file.read_bytes())
    file.write_bytes(archive([parts[0], parts[1], *reversed(parts[2:])]))
    with pytest.raises(SealInvalid, match="signed order"):
        SealIndex.read(file)
    file.write_bytes(seal([]))
    with pytest.raises(Unsigned):
        SealIndex.read(file)


def test_everything_is_sent_once(file):
    asked = push(Host(), file)
    assert sorted(asked) == sorted(["POST offers", *(f"PUT {digest}" for digest in BLOBS), "POST finish"])


def test_what_the_host_has_is_not_sent(file):
    host = Host()
    model = Digest.of(FILES["model.onnx"]).hex
    host.blobs = {**BLOBS, model: BLOBS[model][:100]}
    assert push(host, file) == ["POST offers", f"PUT {model}", "POST finish"]


def test_after_a_broken_connection_it_goes_on_where_the_host_is(file):
    host = Host()
    host.lose = 2
    assert sum(asked.startswith("PUT") for asked in push(host, file)) == 4


def test_busy_hosts_and_lost_answers_are_asked_again(file):
    host = Host()
    host.faults = {
        "POST offers": [refusal(503, "queue_full", 0.01)],
        "PUT": [refusal(429, "rate_limited", 0.01), refusal(409, "offset_wrong")],
        "HEAD": [HostUnreachable("gone")],
        "POST finish": [HostUnreachable("gone"), refusal(503, "not_ready", 0.01)],
    }
    push(host, file)


def test_a_blob_found_damaged_is_sent_again(file):
    host = Host()
    readme = Digest.of(FILES["README.md"]).hex

    def damage(call, waits=None):
        answer = Host.send(host, call, waits)
        if call.path.endswith("/finish") and readme in host.blobs and not getattr(host, "told", False):
            host.told = True
            host.blobs[readme] = b""
            raise refusal(400, "digest_mismatch")
        return answer

    OfferPush(damage, file, lambda _: None, patience=QUICK).run()
    assert host.blobs == BLOBS


def test_a_refusal_is_final(file):
    for what in ("POST offers", "PUT", "POST finish"):
        host = Host()
        host.faults = {what: [refusal(403, "policy_refused") for _ in range(2)]}
        with pytest.raises(HostRefused) as refused:
            push(host, file)
        assert refused.value.code == "policy_refused"


def test_it_gives_up_when_nothing_moves(file):
    host = Host()
    host.faults = {"PUT": [HostUnreachable("gone") for _ in range(100)]}
    with pytest.raises(HostUnreachable):
        push(host, file)


def test_retry_after_is_honoured_and_pauses_grow():
    patience = Patience(tries=9, first_s=1.0, longest_s=5.0)
    gone = HostUnreachable("gone")
    assert 0.75 <= patience.after(1, gone) <= 1.25
    assert 3 <= patience.after(3, gone) <= 5
    assert patience.after(8, gone) <= 6.25
    assert patience.after(1, refusal(503, "queue_full", 60.0)) == 60.0
    with pytest.raises(HostUnreachable):
        patience.after(9, gone)
