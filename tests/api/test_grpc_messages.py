"""The compiled messages are those of inference.proto, and of the protocol's public clients."""

import re
from importlib.resources import files

import pytest

from sandseal_host.api import grpc as room
from sandseal_host.api.grpc import messages

PROTO = files(room).joinpath("inference.proto").read_text(encoding="utf-8")
_SCALARS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
}
_FIELD = re.compile(r"(?:(repeated) )?(map<\w+, \w+>|[\w.]+) (\w+) = (\d+);")


def compiled(descriptor):
    """Every field of a message and of those within it: name, number, type."""
    for field in descriptor.fields:
        kind = _SCALARS.get(field.type) or (field.message_type or field.enum_type).name
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
            kind = f"map<{_SCALARS[key.type]}, {_SCALARS.get(value.type) or value.message_type.name}>"
        yield f"{descriptor.name}.{field.name} = {field.number}: {kind}" + (" repeated" if is_list(field, kind) else "")
    for nested in descriptor.nested_types:
        if not nested.GetOptions().map_entry:
            yield from compiled(nested)


def is_list(field, kind):
    return field.is_repeated and not kind.startswith("map")


def written(name):
    """The same out of the source."""
    stack = []
    for line in re.search(rf"^message {name} \{{(?:\}}|.*?^\}})", PROTO, re.M | re.S)[0].splitlines():
        if line.strip().startswith("message") and not line.endswith("{}"):
            stack.append(line.split()[1])
        elif line.strip().startswith(("oneof", "enum")):
            stack.append(stack[-1])
        elif line.strip() == "}":
            stack.pop()
        elif field := _FIELD.search(line):
            repeated, kind, label, number = field.groups()
            yield f"{stack[-1]}.{label} = {number}: {kind.split('.')[-1]}" + (" repeated" if repeated else "")


NAMES = re.findall(r"^message (\w+)", PROTO, re.M)


@pytest.mark.parametrize("name", NAMES)
def test_the_source_is_what_was_compiled(name):
    assert sorted(written(name)) == sorted(compiled(getattr(messages, name).DESCRIPTOR))


@pytest.mark.parametrize("name", NAMES)
def test_the_wire_format_is_the_public_one(name):
    public = pytest.importorskip("tritonclient.grpc.service_pb2", reason="needs tritonclient and grpcio")
    from tritonclient.grpc import model_config_pb2

    ours = set(compiled(getattr(messages, name).DESCRIPTOR))
    if name in public.DESCRIPTOR.message_types_by_name:
        assert ours == set(compiled(public.DESCRIPTOR.message_types_by_name[name]))
    else:  # parts of the configuration: what we say, we say in its words
        assert ours <= set(compiled(model_config_pb2.DESCRIPTOR.message_types_by_name[name]))


@pytest.mark.parametrize(
    "of", ["DataType", "ModelInput.Format", "ModelInstanceGroup.Kind", "ModelQueuePolicy.TimeoutAction"]
)
def test_the_values_of_enumerations_are_the_public_ones(of):
    pytest.importorskip("tritonclient.grpc", reason="needs tritonclient and grpcio")
    from tritonclient.grpc import model_config_pb2 as public

    message, _, name = of.rpartition(".")
    pool = messages.ModelConfig.DESCRIPTOR.file
    scopes = [(file.message_types_by_name[message] if message else file) for file in (pool, public.DESCRIPTOR)]
    ours, theirs = ({v.name: v.number for v in scope.enum_types_by_name[name].values} for scope in scopes)
    assert ours.items() <= theirs.items()
