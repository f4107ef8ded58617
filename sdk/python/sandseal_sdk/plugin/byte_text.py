"""Text as a plugin sees it, for plain Python: one character per byte, and case and white space are ASCII's."""

from collections.abc import Callable, Iterator
from typing import Any

# Methods that ask what a character is: they answer as those of `bytes` do.
_ASCII = (
    "lower", "upper", "capitalize", "strip", "lstrip", "rstrip", "split", "splitlines", "isalpha", "isdigit", "isalnum",
    "isspace", "islower", "isupper",
)  # fmt: skip
# Methods that do not, but whose result is text again.
_PLAIN = ("__add__", "__mul__", "__rmul__", "__getitem__", "replace", "join", "removeprefix", "removesuffix")


class ByteText(str):
    """A text of bytes; what is made of it is one too."""

    __slots__ = ()

    def __radd__(self, other: str) -> "ByteText":
        return ByteText(str(other) + str(self))

    def __iter__(self) -> Iterator[str]:
        return map(ByteText, super().__iter__())


def _on_bytes(name: str) -> Callable[..., Any]:
    method = getattr(bytes, name)

    def call(self: ByteText, *arguments: Any, **named: Any) -> Any:
        return _text(method(self.encode("latin-1"), *map(_bytes, arguments), **named))

    return call


def _on_text(name: str) -> Callable[..., Any]:
    method = getattr(str, name)

    def call(self: ByteText, *arguments: Any) -> Any:
        made = method(self, *arguments)
        return ByteText(made) if isinstance(made, str) else made

    return call


def _bytes(value: Any) -> Any:
    return value.encode("latin-1") if isinstance(value, str) else value


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(part) for part in value]
    return ByteText(value.decode("latin-1")) if isinstance(value, bytes) else value


for _name in _ASCII:
    setattr(ByteText, _name, _on_bytes(_name))
for _name in _PLAIN:
    setattr(ByteText, _name, _on_text(_name))


def as_byte_text(value: Any) -> Any:
    """A value with all text in it as the bytes of its UTF-8."""
    if isinstance(value, str):
        return ByteText(value.encode().decode("latin-1"))
    if isinstance(value, dict):
        return {as_byte_text(key): as_byte_text(element) for key, element in value.items()}
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(as_byte_text, value))
    return value
