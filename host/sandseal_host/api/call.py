"""The raw call: a plain body, an image or a text, into a model's only input (`curl --data-binary @file`)."""

from fnmatch import fnmatchcase

from sandseal_host.api.errors import MediaTypeWrong
from sandseal_host.errors import UnsupportedRequest
from sandseal_signing.manifest import Manifest
from sandseal_signing.tensor import DataType

# What curl says of any --data-binary body, and what says nothing: the manifest has no opinion on these.
_UNTOLD = ("", "application/octet-stream", "application/x-www-form-urlencoded")


def check_callable(manifest: Manifest) -> None:
    """Check that a model takes a plain body.

    Raises:
        UnsupportedRequest: it has several inputs, or one that is neither BYTES nor UINT8.
    """
    inputs = manifest.inputs
    if len(inputs) != 1 or inputs[0].dtype not in (DataType.BYTES, DataType.UINT8):
        shown = [f"{spec.name} {spec.dtype}" for spec in inputs]
        raise UnsupportedRequest(
            f"model {manifest.name!r} takes {shown}; a call needs one input of BYTES or UINT8",
            hint=f"use POST /v2/models/{manifest.name}/infer",
        )


def check_content_type(header: bytes, accepted: tuple[str, ...] = ()) -> None:
    """Check what a body says that it is.

    Args:
        header: the request's Content-Type; empty when it has none.
        accepted: the manifest's `model.raw`, such as `image/*`; empty takes everything.

    Raises:
        MediaTypeWrong: multipart, or none of the accepted ones.
    """
    kind = header.partition(b";")[0].strip().lower().decode("latin-1")
    if kind.startswith("multipart/"):
        raise MediaTypeWrong("a multipart body is not taken", hint="send the file itself: curl --data-binary @FILE")
    if accepted and kind not in _UNTOLD and not any(fnmatchcase(kind, pattern) for pattern in accepted):
        raise MediaTypeWrong(
            f"the model takes {list(accepted)}, not {kind[:80]!r}",
            hint="send another kind of file, or leave Content-Type out",
            accepted=list(accepted),
        )
