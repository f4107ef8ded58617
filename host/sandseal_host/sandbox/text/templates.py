"""Chat templates: Jinja as the `transformers` library offers it to them, in its immutable sandbox.

The sandbox keeps a template from what Python objects lead to; the process around it, from everything else.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sandseal_host.errors import InputRefused, ModelFailed, ModelInvalid
from sandseal_host.sandbox.printable import printable

_MAX_TEXT = 1000  # characters of a template's own message


class ChatTemplate:
    """A publisher's template.

    Args:
        source: UTF-8.

    Raises:
        ModelInvalid: it is no template.
    """

    def __init__(self, source: bytes) -> None:
        environment = _Environment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _Generation]
        )  # fmt: skip
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        try:
            self._template: Template = environment.from_string(source.decode())
        except TemplateSyntaxError as error:
            raise _invalid(f"line {error.lineno}: {error.message}") from None
        except (UnicodeDecodeError, RecursionError, ValueError, OverflowError) as error:
            raise _invalid(str(error)) from None

    def render(self, variables: Mapping[str, Any]) -> str:
        """The text for these variables.

        Raises:
            InputRefused: the template refuses them, or misses something in them.
            ModelFailed: it fails.
        """
        try:
            return self._template.render(variables)
        except (_Refused, UndefinedError) as error:
            said = printable(str(error), _MAX_TEXT)
            raise InputRefused(
                f"the chat template refuses these messages: {said}", hint="change the messages as it says"
            ) from None
        except Exception as error:  # whatever the template led to
            said = printable(str(error), _MAX_TEXT)
            raise ModelFailed(
                f"the chat template fails: {type(error).__name__}: {said}",
                hint="other messages may not make it fail; the publisher must correct it",
            ) from None


class _Environment(ImmutableSandboxedEnvironment):
    def handle_exception(self, source: str | None = None) -> NoReturn:
        """Let an error pass as it is: its places in the template, which Jinja would look up, need files."""
        raise  # what is being handled


class _Refused(TemplateError):
    """The template called `raise_exception`."""


class _Generation(Extension):
    """`{% generation %}`: marks the answers in a conversation, for training; here it gives what it holds."""

    tags = {"generation"}  # noqa: RUF012 - jinja2's own form

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """What stands between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> NoReturn:
    raise _Refused(message)


def _now(form: str) -> str:
    return datetime.now().astimezone().strftime(form)


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _invalid(why: str) -> ModelInvalid:
    return ModelInvalid(f"the chat template cannot be read: {printable(why, _MAX_TEXT)}")
