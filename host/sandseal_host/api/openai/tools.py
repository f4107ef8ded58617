"""Functions that a chat offers to the model, and what an answer's calls of them look like in OpenAI's API."""

import json
import re
import secrets
import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sandseal_host.api.errors import OptionInvalid
from sandseal_host.api.json_document import check_limits
from sandseal_host.api.openai.form import flag, node_of, objects
from sandseal_host.errors import RequestInvalid
from sandseal_host.serving.generation.tool_calls import MISTRAL, CallForm, CallReader, ToolCall
from sandseal_signing.schema import Node

MAX_TOOLS = 128  # as OpenAI has it

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_NAME_RULE = "1 to 64 of a-z A-Z 0-9 _ -"
_ID_LETTERS, _ID_SIZE = string.ascii_letters + string.digits, 9  # Mistral's templates refuse any other
_CHOICES = ("none", "auto", "required")

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tools:
    """The functions that an answer may call.

    Args:
        functions: for the template, in OpenAI's form.
        strict: names of those whose arguments must keep to their schemas.
        forced: the answer must be a call.
        single: it has one at most.
    """

    functions: tuple[Mapping[str, Any], ...]
    strict: frozenset[str] = frozenset()
    forced: bool = False
    single: bool = False

    @property
    def schemas(self) -> Mapping[str, Any]:
        """By name, the schema of each one's arguments."""
        return {each["function"]["name"]: each["function"]["parameters"] for each in self.functions}

    def reader(self, form: CallForm) -> CallReader:
        """What takes an answer apart."""
        return CallReader(form, self.schemas.keys(), 1 if self.single else None, forced=self.forced)

    def constraints(self, form: CallForm, special: Collection[int]) -> Mapping[str, Any]:
        """What the bundle's logits plugin is to hold the answer to; nothing where all is free.

        Args:
            form: the model's.
            special: ids of the form's marks that are tokens of their own, which no plugin sees as text.

        Raises:
            OptionInvalid: a function is strict, and nobody knows where its calls begin.
        """
        if self.forced:
            return {"json_schema": self._schema(form)}
        if not self.strict:
            return {}
        if special or not form.closing:
            raise OptionInvalid(
                "tools: a function is 'strict', which this model's way of writing calls allows only with a tool_choice"
                " of 'required' or a function",
                where="tools",
            )
        return {"json_schema": self._schema(form), "within": [form.mark, form.closing]}

    def _schema(self, form: CallForm) -> Mapping[str, Any]:
        """The JSON schema of a call, as the model writes it."""
        calls, definitions = [], {}
        for i, (name, arguments) in enumerate(self.schemas.items()):
            held = arguments if self.forced or name in self.strict else {}
            definitions[str(i)] = _moved(held or {"type": "object"}, f"#/$defs/{i}")
            members = {"name": {"const": name}, form.arguments: {"$ref": f"#/$defs/{i}"}}
            calls.append({"type": "object", "properties": members, "required": [*members]})
        call = {"anyOf": calls}
        listed = {"type": "array", "items": call, "minItems": 1, "maxItems": 1}
        return (listed if form is MISTRAL else call) | {"$defs": definitions}


def read_tools(node: Node, *, holds: bool) -> Tools | None:
    """Take the members that offer functions; None where the answer is to call none.

    Args:
        node: of the request.
        holds: whether the bundle can hold answers to a schema.

    Raises:
        OptionInvalid: one of them is not as it must be, or wants what the bundle cannot do.
    """
    given, choice = node.take("tools", None), node.take("tool_choice", "auto")
    single = not flag(node, "parallel_tool_calls", True)
    functions = [_function(each) for each in objects(node, "tools", given)] if given else []
    if len(functions) > MAX_TOOLS:
        node.fail("tools", f"must hold {MAX_TOOLS} functions at most, not {len(functions)}")
    names = [each["function"]["name"] for each, _ in functions]
    if len(set(names)) < len(names):
        node.fail("tools", "names a function twice")
    wanted = _wanted(node, choice, names)
    if not functions or choice == "none":
        return None
    forced = choice != "auto"
    strict = frozenset(function["function"]["name"] for function, held in functions if held)
    if (forced or strict) and not holds:
        name = "tool_choice" if forced else "tools"
        node.fail(name, "needs a logits plugin to hold calls to a schema, and this model's bundle has none")
    offered = tuple(function for function, _ in functions if function["function"]["name"] in wanted)
    return Tools(offered, strict, forced, single)


def called(call: ToolCall) -> Message:
    """A call in an answer."""
    name = "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_SIZE))
    return {"id": name, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def earlier_call(node: Node) -> Message:
    """A call in an answer that is sent back, as templates read it: its arguments are an object.

    Raises:
        OptionInvalid: it is none.
    """
    node.text("type", "function", valid="function".__eq__, rule="'function'")
    call = {"id": node.text("id"), "type": "function"}
    function = node_of(node.take("function"), node.at("function"))
    node.close()
    name, text = function.text("name"), function.text("arguments", valid=lambda _: True, rule="a string")
    try:
        check_limits(text.encode(), "its JSON")
        arguments = json.loads(text or "{}")
    except RequestInvalid as error:
        function.fail("arguments", str(error))
    except ValueError:
        function.fail("arguments", "must be JSON")
    if type(arguments) is not dict:
        function.fail("arguments", "must be a JSON object")
    function.take("parsed_arguments", None)  # which OpenAI's client adds to an answer whose form it knows
    function.close()
    return call | {"function": {"name": name, "arguments": arguments}}


def _function(node: Node) -> tuple[Mapping[str, Any], bool]:
    """A function in the template's form, and whether its arguments must keep to their schema."""
    node.text("type", valid="function".__eq__, rule="'function'; nothing else can be called here")
    function = node_of(node.take("function"), node.at("function"))
    node.close()
    read = {
        "name": function.text("name", valid=_NAME.match, rule=_NAME_RULE),
        "description": function.text("description", "", valid=lambda _: True, rule="a string"),
        "parameters": function.take("parameters", {"type": "object", "properties": {}}),
    }
    if type(read["parameters"]) is not dict:
        function.fail("parameters", "must be a JSON schema, which is an object")
    strict = flag(function, "strict")
    function.close()
    return {"type": "function", "function": read}, strict


def _wanted(node: Node, choice: Any, names: list[str]) -> list[str]:
    """The functions that may be called."""
    if type(choice) is str:
        if choice not in _CHOICES:
            node.fail("tool_choice", f"must be one of {list(_CHOICES)}, or name a function")
        if choice == "required" and not names:
            node.fail("tool_choice", "is 'required', and there are no tools")
        return names
    chosen = node_of(choice, "tool_choice")
    chosen.text("type", valid="function".__eq__, rule="'function'")
    function = node_of(chosen.take("function"), "tool_choice.function")
    name = function.text("name", valid=names.__contains__, rule="the name of one of the tools")
    function.close()
    chosen.close()
    return [name]


def _moved(schema: Any, to: str) -> Any:
    """A schema with its references into itself, where it stands in another one."""
    if isinstance(schema, list):
        return [_moved(each, to) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: _moved(each, to) for name, each in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = to + reference[1:]
    return moved
