"""Where the data of a JSON request with one input stands, so that the rest of its text is worked out only once.

A client that sends the same model new numbers repeats everything around them byte for byte. That rest is the
skeleton: the text with `null` in the place of the list after the first `"data":`. A skeleton without another null
that reads as a request whose only input has null for its data says the same whatever list stands there.
"""

from dataclasses import dataclass

import orjson

from sandseal_host.api.json_tensor import tensor_from_json
from sandseal_host.tensors import Tensor
from sandseal_signing.tensor import TensorSpec

_DATA = b'"data":'


def split_data(text: bytes) -> tuple[bytes, bytes] | None:
    """The skeleton of a request and its list of data; None where the text is of another form.

    The list ends at its first closing bracket: nested ones, and strings that hold one, make skeletons that no request
    had.
    """
    start = text.find(_DATA) + len(_DATA)
    end = text.find(b"]", start) + 1
    if start < len(_DATA) or not end or text[start : start + 2].lstrip()[:1] != b"[":
        return None
    return b"%bnull%b" % (text[:start], text[end:]), text[start:end]


def is_skeleton(text: bytes) -> bool:
    """Whether this text, which may or may not be JSON, is a request whose only null is its only input's data."""
    if text.count(b"null") != 1:
        return False
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    match document:
        case {"inputs": [{"data": None}]}:
            return True
    return False


@dataclass(frozen=True, slots=True)
class JsonSlot:
    """An input whose data stands in the JSON, its name, type and shape being known.

    Args:
        spec: its name and data type.
        shape: checked against the spec.
    """

    spec: TensorSpec
    shape: tuple[int, ...]

    def read(self, data: bytes) -> Tensor | None:
        """The tensor of a JSON list; None when the list is not plain JSON, such as one with NaN.

        Raises:
            RequestInvalid: it is not what type and shape take.
        """
        try:
            values = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        # One letter of `true` and one of `false` that no number has; longer patterns take ten times as long to find.
        return tensor_from_json(self.spec, self.shape, values, booleans=b"u" in data or b"a" in data)
