"""What a bundle brings to turn text into tokens."""

from collections.abc import Mapping
from dataclasses import dataclass

from sandseal_signing.generation import GenerationSpec


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

    @classmethod
    def of(cls, spec: GenerationSpec, files: Mapping[str, bytes]) -> "TextFiles":
        """Those of a bundle, out of its files by name."""
        template = files[spec.chat_template] if spec.chat_template else None
        return cls(files[spec.tokenizer], template, spec.add_bos, next(iter(spec.stop_ids), None))
