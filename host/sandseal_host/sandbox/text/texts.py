"""A tokenizer and a chat template; both are the publisher's, so this is for confined processes alone."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

from sandseal_host.errors import InputRefused, ModelFailed, ModelInvalid, UnsupportedRequest
from sandseal_host.sandbox.printable import printable
from sandseal_host.sandbox.text.files import TextFiles
from sandseal_host.sandbox.text.templates import ChatTemplate
from sandseal_host.sandbox.text.tokens import byte_decoder

_MAX_TEXT = 500  # characters of the library's own message
_CUT = "\ufdd0"  # of Unicode's noncharacters, which are no text
_ALWAYS = {"add_generation_prompt": True, "tools": None, "documents": None}  # as transformers has it
MAX_TOKENS = 1 << 22


class Texts:
    """Text to tokens, by a publisher's files.

    Args:
        files: the tokenizer and the template.

    Raises:
        ModelInvalid: one of them cannot be used.
    """

    def __init__(self, files: TextFiles) -> None:
        try:
            self._tokenizer = Tokenizer.from_str(files.tokenizer.decode())
        except BaseException as error:  # the library has no class of its own; Rust's panics are no Exception
            raise ModelInvalid(f"tokenizer.json cannot be read: {printable(str(error), _MAX_TEXT)}") from None
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._template = None if files.template is None else ChatTemplate(files.template)
        self._names = {"bos_token": self._name(files.bos), "eos_token": self._name(files.eos)}
        self._reserved = self._special_names()

    @cached_property
    def tokens(self) -> Sequence[bytes]:
        """The bytes of each token, by id; b"" of ids that nothing has.

        Raises:
            ModelInvalid: nobody knows them, or there are too many.
        """
        decoder = self._tokenizer.decoder
        decode = byte_decoder(None if decoder is None else json.loads(decoder.__getstate__()))
        names = self._tokenizer.get_vocab(with_added_tokens=True)
        size = max(names.values(), default=-1) + 1
        if size > MAX_TOKENS:
            raise ModelInvalid(f"tokenizer.json has token {size - 1}, over {MAX_TOKENS - 1}")
        tokens = [b""] * size
        for name, token in names.items():
            tokens[token] = decode(name)
        return tokens

    @property
    def special(self) -> Sequence[int]:
        """Ids of the tokens that are no text."""
        added = self._tokenizer.get_added_tokens_decoder()
        return [token for token, what in added.items() if what.special]

    def encode(self, text: str) -> Sequence[int]:
        """The tokens of a text; names of special tokens in it become these, and none is put before or behind it.

        Raises:
            InputRefused: it holds a lone surrogate, which is no character.
            ModelFailed: the tokenizer fails.
        """
        if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
            raise InputRefused("the text holds a lone surrogate", hint="send text that UTF-8 can hold")
        try:
            ids: Sequence[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        except BaseException as error:
            raise ModelFailed(
                f"the tokenizer fails: {printable(str(error), _MAX_TEXT)}",
                hint="other text may not make it fail; the publisher must correct it",
            ) from None
        return ids

    def chat(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> Sequence[int]:
        """The tokens of a conversation, whose special ones are the template's: names of them in messages stay text.

        Args:
            messages: in the form that OpenAI's API gave to them.
            options: further variables of the template; `add_generation_prompt` is true if it does not say otherwise.

        Raises:
            UnsupportedRequest: there is no template.
            InputRefused, ModelFailed: as `ChatTemplate.render` and `encode` raise.
        """
        if self._template is None:
            raise UnsupportedRequest("this model has no chat template", hint="give it a plain prompt")
        given = self._cut({**options, "messages": messages})
        text = self._template.render({**_ALWAYS, **self._names, **given})
        return [token for part in text.split(_CUT) for token in self.encode(part)]

    def _cut(self, value: Any) -> Any:
        """The same, with a mark in each name of a special token, where the text is taken apart after the template."""
        if isinstance(value, dict):
            return {self._cut(name): self._cut(each) for name, each in value.items()}
        if isinstance(value, list):
            return [self._cut(each) for each in value]
        if isinstance(value, str):
            for name in self._reserved:
                while name in value:  # again where names overlap
                    value = value.replace(name, f"{name[0]}{_CUT}{name[1:]}")
        return value

    def _special_names(self) -> Sequence[str]:
        added = self._tokenizer.get_added_tokens_decoder().values()
        return [token.content for token in added if token.special and len(token.content) > 1]

    def _name(self, token: int | None) -> str:
        return "" if token is None else self._tokenizer.id_to_token(token) or ""
