"""What a model's tokens are in bytes."""

from collections.abc import Collection, Sequence


class Vocabulary:
    """The bytes of each token, of which text is made one after another.

    Args:
        tokens: by id; those that are no text are empty.
        special: ids that steer the model, such as the end of a turn, and are no part of an answer's text.
    """

    def __init__(self, tokens: Sequence[bytes], special: Collection[int] = ()) -> None:
        self._tokens, self._special = tuple(tokens), frozenset(special)

    def __len__(self) -> int:
        return len(self._tokens)

    def bytes_of(self, token: int) -> bytes:
        """A token's bytes; none of an id beyond the last, which models have that pad their logits."""
        return self._tokens[token] if token < len(self._tokens) else b""

    def is_special(self, token: int) -> bool:
        """Whether it is no part of an answer's text."""
        return token in self._special

    def special_called(self, names: Collection[str]) -> frozenset[int]:
        """The special tokens of these names."""
        return frozenset(token for token in self._special if self.bytes_of(token).decode("utf-8", "replace") in names)
