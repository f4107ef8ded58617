"""Whether 32 bytes are a safe Ed25519 public key (RFC 8032 section 5.1; "Taming the many EdDSAs").

The `cryptography` package verifies signatures but accepts any 32 bytes as a key, small-order points included, under
which one fixed signature verifies any message. This runs once per enrolment, so plain integers are fast enough.
"""

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
_SQRT_M1 = pow(2, (P - 1) // 4, P)

Point = tuple[int, int, int, int]
"""Extended coordinates X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z."""

_IDENTITY: Point = (0, 1, 1, 0)


def why_unsafe(encoded: bytes) -> str | None:
    """The reason why these 32 bytes must not be enrolled, or None when they are a safe key."""
    y = int.from_bytes(encoded, "little") & ((1 << 255) - 1)
    sign = encoded[31] >> 7
    if y >= P:
        return "its encoding is not canonical"
    point = _decompress(y, sign)
    if point is None:
        return "it is not a point on the curve"
    if _is_identity(_multiply(8, point)):
        return "it has small order: one fixed signature verifies any message under it"
    if not _is_identity(_multiply(L, point)):
        return "it is outside the prime-order subgroup"
    return None


def _decompress(y: int, sign: int) -> Point | None:
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P != u:
        x = x * _SQRT_M1 % P
    if v * x * x % P != u or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


def _add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _multiply(scalar: int, point: Point) -> Point:
    result = _IDENTITY
    while scalar:
        if scalar & 1:
            result = _add(result, point)
        point, scalar = _add(point, point), scalar >> 1
    return result


def _is_identity(point: Point) -> bool:
    return point[0] == 0 and (point[1] - point[2]) % P == 0
