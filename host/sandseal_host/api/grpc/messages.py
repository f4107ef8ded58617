"""The protocol's messages as classes, made of `inference.binpb`, which is the compiled `inference.proto`.

They live in a descriptor pool of their own: client libraries of the protocol register the same names in the default
one, and a process may hold both.
"""

from importlib.resources import files
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Message = Any  # protobuf makes its classes while the process runs

_pool = DescriptorPool()
for _file in FileDescriptorSet.FromString(files(__package__).joinpath("inference.binpb").read_bytes()).file:
    _pool.Add(_file)


def __getattr__(name: str) -> Any:
    try:
        descriptor = _pool.FindMessageTypeByName(f"inference.{name}")
    except KeyError:
        raise AttributeError(f"the protocol has no message {name}") from None
    made = globals()[name] = GetMessageClass(descriptor)
    return made
