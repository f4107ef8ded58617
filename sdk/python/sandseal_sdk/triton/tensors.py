"""A tensor as config.pbtxt has it."""

from dataclasses import dataclass

from sandseal_sdk.triton.text_format import Message, take

_DTYPES = {"STRING": "BYTES"}  # the others are called alike


@dataclass(frozen=True, slots=True)
class TensorConfig:
    """A tensor's kind: the protocol's data type, and the sizes behind the batch axis, -1 for any."""

    dtype: str
    dims: tuple[int, ...]


def read_tensor(fields: Message) -> TensorConfig:
    """Take the kind out of a message that has `data_type` and `dims`."""
    dtype = take(fields, "data_type", "").removeprefix("TYPE_")
    return TensorConfig(_DTYPES.get(dtype, dtype), tuple(fields.pop("dims", ())))
