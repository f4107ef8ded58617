"""Receipts: the host's signed word on which bundle turned which request into which response (sandseal.receipt/1).

A receipt is a DSSE envelope in the form of a bundle's signature files, with a payload type of its own, by a key that
signs nothing else. It is one line of ASCII, so that it can travel as the value of an HTTP header.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sandseal_signing.checkpoint import Checkpoint
from sandseal_signing.digest import Digest
from sandseal_signing.envelope import Envelope, pae
from sandseal_signing.errors import FormatError, ReceiptInvalid
from sandseal_signing.keys import PrivateKey, PublicKey
from sandseal_signing.logentry import read_digest, read_time, render_time
from sandseal_signing.merkle import TreeHead
from sandseal_signing.schema import Node, canonical_json, parse_json

SCHEMA = "sandseal.receipt/1"
PAYLOAD_TYPE = "application/vnd.sandseal.receipt+json"
MAX_BYTES = 16 << 10

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_NONCE = re.compile(r"[!-~]{0,128}\Z")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one request met.

    Args:
        bundle: the id of the bundle that answered.
        plugins: the digests of its plugins' wasm by stage, such as `pre` and `post`.
        request: SHA-256 of the request's body, without transfer and content coding.
        response: SHA-256 of the response's body, likewise.
        time: of the answer, with zone.
        service_class: the class that the request was served in.
        nonce: what the client sent to be repeated, at most 128 visible ASCII characters; empty when it sent none.
        log: where the host's log stood; the bundle's acceptance is among its entries.
        members: of a pipeline, the ids of the bundles whose models took part, by step.
    """

    bundle: Digest
    plugins: Mapping[str, Digest]
    request: Digest
    response: Digest
    time: datetime
    service_class: str
    nonce: str
    log: Checkpoint
    members: Mapping[str, Digest] = field(default_factory=dict)

    def _payload(self) -> bytes:
        members = {"members": {step: digest.hex for step, digest in self.members.items()}} if self.members else {}
        return canonical_json(
            {
                **members,
                "schema": SCHEMA,
                "bundle": self.bundle.hex,
                "plugins": {stage: digest.hex for stage, digest in self.plugins.items()},
                "request": self.request.hex,
                "response": self.response.hex,
                "time": render_time(self.time),
                "class": self.service_class,
                "nonce": self.nonce,
                "log": {"origin": self.log.origin, "size": self.log.head.size, "root": self.log.head.root.hex()},
            }
        )


def is_nonce(text: str) -> bool:
    """Whether a client may send this as its nonce."""
    return _NONCE.match(text) is not None


def make_receipt(receipt: Receipt, key: PrivateKey) -> bytes:
    """The signed receipt, with no check of its texts: they are the host's own, but for the nonce, see `is_nonce`.

    Args:
        key: the host's receipt key.
    """
    payload = receipt._payload()
    signature = key.sign(pae(PAYLOAD_TYPE, payload))
    return Envelope(payload, PAYLOAD_TYPE, signature, key.public.hint).render()


def verify_receipt(data: bytes, key: PublicKey) -> Receipt:
    """What a receipt says, if `key` signed it.

    Args:
        data: the file, or the header's value.
        key: the host's receipt key.

    Raises:
        ReceiptInvalid: not a receipt, or signed by another key.
    """
    if len(data) > MAX_BYTES:
        raise ReceiptInvalid(f"the receipt has {len(data)} bytes, over {MAX_BYTES}")
    try:
        envelope = Envelope.parse(data, "receipt")
        if envelope.payload_type != PAYLOAD_TYPE:
            raise ReceiptInvalid(f"this is signed {envelope.payload_type[:80]!r}, not a receipt")
        _check_signature(envelope, key)
        return _parse(envelope.payload)
    except FormatError as error:
        raise ReceiptInvalid(error.message) from None


def _check_signature(envelope: Envelope, key: PublicKey) -> None:
    if envelope.hint != key.hint:
        raise ReceiptInvalid(
            f"the receipt is signed by the key of hint {envelope.hint[:16]}, not by that of {key.hint[:16]}",
            hint="take the key that the host had then; its log tells when it changed",
        )
    if not envelope.verifies(key):
        raise ReceiptInvalid("the receipt's signature does not verify: it was changed, or is not the host's")


def _parse(payload: bytes) -> Receipt:
    root = Node(parse_json(payload, "receipt"), "", ReceiptInvalid)
    root.text("schema", valid=SCHEMA.__eq__, rule=repr(SCHEMA))
    members = root.child("members", None)
    receipt = Receipt(
        bundle=read_digest(root, "bundle"),
        plugins=_digests(root.child("plugins")),
        request=read_digest(root, "request"),
        response=read_digest(root, "response"),
        time=read_time(root, "time"),
        service_class=root.text("class", valid=_NAME.match, rule="the name of a class"),
        nonce=root.text("nonce", valid=is_nonce, rule="at most 128 visible ASCII characters"),
        log=_log(root.child("log")),
        members=_digests(members) if members else {},
    )
    root.close()
    return receipt


def _digests(node: Node) -> Mapping[str, Digest]:
    """Digests by stage, or by step."""
    stages = list(node.rest())
    for stage in stages:
        if not _NAME.match(stage):
            node.fail(stage, "is not the name of a stage")
    return {stage: read_digest(node, stage) for stage in stages}


def _log(node: Node) -> Checkpoint:
    head = TreeHead(node.integer("size"), bytes.fromhex(read_digest(node, "root").hex))
    checkpoint = Checkpoint(node.text("origin"), head)
    node.close()
    return checkpoint
