"""Receipts as the host writes them: about the bundle's plugins, both bodies, and the log as it stands."""

import io

import pytest

from sandseal_host.registry.log import TransparencyLog
from sandseal_host.registry.receipts import ReceiptDesk
from sandseal_signing.digest import Digest
from sandseal_signing.errors import ReceiptInvalid
from sandseal_signing.keys import PrivateKey
from sandseal_signing.logentry import Kind, Subject
from sandseal_signing.receipt import verify_receipt
from support.bundles import FILES, seal
from support.manifests import PIPELINE

WASM = b"\0asm\x01\0\0\0"
PRE = {
    "plugin": "plugins/pre.wasm",
    "function": "preprocess",
    "inputs": [{"name": "text", "dtype": "BYTES", "shape": ["batch"]}],
}


@pytest.fixture
def log(data):
    return TransparencyLog(data.catalog, PrivateKey.generate())


@pytest.fixture
def key():
    return PrivateKey.generate()


@pytest.fixture
def bundle(data, alice):
    archive = seal([alice], files={**FILES, "plugins/pre.wasm": WASM}, pre=PRE)
    return data.registry.open(data.registry.accept(io.BytesIO(archive), lambda _: None).id)


def test_a_receipt_says_what_a_request_met(bundle, log, key):
    desk = ReceiptDesk(log, key)
    desk.know(bundle)
    log.record(Kind.ACCEPT, "ci", Subject(bundle.id, "acme.tiny", 1))
    line = desk.write(bundle.id.hex, memoryview(b"in"), b"out", service_class="batch", nonce="n")
    assert line.isascii()
    assert b"\n" not in line
    receipt = verify_receipt(line, desk.public)
    assert (receipt.bundle, receipt.plugins) == (bundle.id, {"pre": Digest.of(WASM)})
    assert (receipt.request, receipt.response) == (Digest.of(b"in"), Digest.of(b"out"))
    assert (receipt.service_class, receipt.nonce) == ("batch", "n")
    assert receipt.log == log.state
    with pytest.raises(ReceiptInvalid):
        verify_receipt(line, log.verifier.public)


def test_a_stage_that_was_skipped_is_not_named(bundle, log, key):
    desk = ReceiptDesk(log, key)
    desk.know(bundle)
    line = desk.write(bundle.id.hex, b"", b"", service_class="standard", nonce="", skipped=("pre",))
    assert verify_receipt(line, desk.public).plugins == {}


def test_a_pipeline_s_names_the_bundles_of_its_models(data, alice, log, key):
    archive = seal([alice], files={"plugins/p.wasm": WASM}, pipeline=PIPELINE)
    bundle = data.registry.open(data.registry.accept(io.BytesIO(archive), lambda _: None).id)
    desk, member = ReceiptDesk(log, key), Digest.of(b"a model's statement")
    desk.know(bundle)
    line = desk.write(bundle.id.hex, b"", b"", service_class="batch", nonce="", members={"read": member.hex})
    receipt = verify_receipt(line, desk.public)
    assert (receipt.plugins, receipt.members) == ({"cut": Digest.of(WASM)}, {"read": member})


def test_each_names_the_log_as_it_is_then(bundle, log, key):
    desk = ReceiptDesk(log, key)
    desk.know(bundle)
    sizes = []
    for number in range(3):
        log.record(Kind.REVOKE, "root", Subject(blob=Digest.of(b"%d" % number)))
        line = desk.write(bundle.id.hex, b"", b"", service_class="standard", nonce="")
        sizes.append(verify_receipt(line, key.public).log.head.size)
    assert sizes == [1, 2, 3]
