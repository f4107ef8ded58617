"""Ed25519 points under which forgeries verify: all encodings of small order, and mixed orders."""

import base64
from collections.abc import Iterator

from sandseal_signing import curve
from sandseal_signing.keys import PublicKey
from vectors.hostile.case import ALICE, Case


def cases() -> Iterator[tuple[str, Case]]:
    """All of this file by name."""
    for number, encoded in enumerate(sorted(small_order_encodings())):
        yield f"point-of-small-order-{number:02}", _case("one fixed signature verifies any message", encoded)
    for number, encoded in enumerate(_mixed_order_encodings()):
        yield f"point-of-mixed-order-{number}", _case("a signature that half of all verifiers take", encoded)
    yield "point-off-the-curve", _case("32 bytes that are no key", (2).to_bytes(32, "little"))
    yield "point-not-canonical", _case("one key in two spellings", (curve.P + 3).to_bytes(32, "little"))


def _case(stands_for: str, encoded: bytes) -> Case:
    return Case(stands_for, lambda _: PublicKey.parse("ed25519:" + base64.b64encode(encoded).decode()))


def _torsion() -> list[curve.Point]:
    """The eight points whose order divides eight; L times any point is one, and of order eight for the right point."""
    for y in range(2, 100):
        point = curve._decompress(y, 0)
        found = point and curve._multiply(curve.L, point)
        if found and not curve._is_identity(curve._multiply(4, found)):
            return [curve._multiply(i, found) for i in range(1, 9)]
    raise AssertionError("no point of order eight")


def _affine(point: curve.Point) -> tuple[int, int]:
    inverse = pow(point[2], -1, curve.P)
    return point[0] * inverse % curve.P, point[1] * inverse % curve.P


def _encode(y: int, sign: int) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


def small_order_encodings() -> set[bytes]:
    """The 14 ways to write the eight points of small order, as lenient readers take them."""
    found = set()
    for x, y in map(_affine, _torsion()):
        signs = (0, 1) if x == 0 else (x & 1,)
        found |= {_encode(value, sign) for value in (y, y + curve.P) if value < 1 << 255 for sign in signs}
    return found


def _mixed_order_encodings() -> list[bytes]:
    raw = ALICE.public.der[-32:]
    value = int.from_bytes(raw, "little")
    alice = curve._decompress(value & ((1 << 255) - 1), value >> 255)
    assert alice is not None
    sums = [_affine(curve._add(alice, point)) for point in _torsion()[:7]]
    return [_encode(y, x & 1) for x, y in sums]
