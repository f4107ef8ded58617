"""What a bundle brings to turn text into tokens."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextFiles:
    """A publisher's tokenizer and chat template.

    Args:
        tokenizer: `tokenizer.json`, as the `tokenizers` library reads it.
        template: a Jinja template that makes a prompt of messages; None where there is none.
        bos, eos: ids of the tokens that the template knows as `bos_token` and `eos_token`.
    """

    tokenizer: bytes
    template: bytes | None = None
    bos: int | None = None
    eos: int | None = None
