import pytest

from sandseal_host.sandbox.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"plain", "plain"),
        ("größe 日本".encode(), "größe 日本"),
        (b"\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("a\u202eb\u200bc\u2028d\x85".encode(), "a\\u202eb\\u200bc\\u2028d\\x85"),
        (b"\xff\xc3", "\ufffd\ufffd"),
        ("\ud800", "\\ud800"),
        (b"12345678901", "1234567890…"),
    ],
)
def test_printable(text: bytes | str, shown: str) -> None:
    assert printable(text, 20 if len(text) != 11 else 10) == shown
