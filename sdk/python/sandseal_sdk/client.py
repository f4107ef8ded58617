"""The client of a host: call models, push bundles, see and control what runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from sandseal_sdk.hosts.call import Call, model_path
from sandseal_sdk.hosts.control import ControlPlane
from sandseal_sdk.hosts.events import EventParser
from sandseal_sdk.hosts.inference import (
    TensorRequest,
    plain_call,
    read_plain,
    read_receipt,
    read_tensors,
    text_call,
)
from sandseal_sdk.hosts.target import Waits

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Client(ControlPlane):
    """One host, for any number of threads; use it with `with`, or call `close`.

    What a model is asked, and what only reads, is sent again while the host is busy (429, 503; after its Retry-After)
    or takes no connection, within the call's time and a budget; everything else is sent once.

    Args:
        url: the host's address, such as `http://127.0.0.1:8000`.
        token: a bearer token; None for a host that takes anonymous inference, or knows a client by its certificate.
        timeout: seconds that a call may take, its further tries included; the host then drops it. None for no
            end. Loads and uploads may take longer.
        tls: a private authority, a client certificate.
        patience: how often a call is tried, and what the pauses are.
        connections: open at once, at most; further calls wait for one.
        max_answer_bytes: that one answer may have, all of which is read into memory.

    Raises:
        HostUnreachable: the address is none.
        TlsFilesInvalid: a file cannot be used.
    """

    def ready(self) -> bool:
        """Whether the host serves."""
        return self._send(Call("GET", "/v2/health/ready", accept=(400, 503))).status == 200

    def model(self, name: str, version: int | None = None) -> dict[str, Any]:
        """A model's inputs and outputs, as the protocol describes them."""
        return dict(self._read(model_path(name, version)))

    def infer(
        self,
        model: str,
        inputs: Mapping[str, "NDArray[Any]"],
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        outputs: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> dict[str, "NDArray[Any]"]:
        """Run a model on NumPy arrays through the Open Inference Protocol's binary form.

        Args:
            inputs: arrays by input name; arrays of `bytes` or `str` objects become BYTES tensors, of ml_dtypes'
                `bfloat16` BF16 ones.
            parameters: such as `priority` (1 to 3) or `sandseal.class`.
            outputs: the names that are wanted; all when None.
            timeout: instead of the client's; the host drops what cannot be answered in that time.

        Returns:
            The outputs by name, in memory of their own; BF16 as float32, BYTES as `bytes` objects.

        Raises:
            TensorInvalid: an array that no datatype carries.
            HostRefused: with the host's code and reason.
        """
        return read_tensors(self._insist(TensorRequest(model, inputs, version, parameters, outputs).call, timeout))

    def call(
        self,
        model: str,
        body: bytes,
        content_type: str = "application/octet-stream",
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Send a plain body (an image, text, a file) to a model that takes one; the answer is JSON.

        The answer's `timings` has the host's Server-Timing, in milliseconds by stage.

        Args:
            parameters: as of `infer`; they are sent in front of the body.
        """
        call = plain_call(model, body, content_type, version, parameters)
        return read_plain(self._insist(lambda _: call, timeout))

    def call_with_receipt(
        self,
        model: str,
        body: bytes,
        nonce: str,
        content_type: str = "application/octet-stream",
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> tuple[bytes, bytes]:
        """As `call`, with the answer as it came, and the host's receipt for it.

        Args:
            nonce: repeated in the receipt; at most 128 visible ASCII characters.
        """
        call = plain_call(model, body, content_type, version, parameters, nonce)
        return read_receipt(self._insist(lambda _: call, timeout))

    def generate(
        self,
        model: str,
        text: str,
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> dict[str, Any]:
        """Let a model go on with a text; the answer has `text_output`.

        Args:
            parameters: such as `max_tokens`, `temperature` or `stop`.
        """

        def ask(left_s: float | None) -> Call:
            return text_call(model_path(model, version) + "/generate", text, parameters, left_s)

        return dict(self._insist(ask, timeout).json())

    def generate_stream(
        self,
        model: str,
        text: str,
        *,
        version: int | None = None,
        parameters: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """As `generate`, in pieces as they come; leaving the loop, or `close` on the iterator, ends the generation.

        Args:
            timeout: seconds that each wait for a piece may take; instead of the client's.

        Raises:
            HostRefused: at once, or in the middle: then what came before it is all that there is.
        """
        call = text_call(model_path(model, version) + "/generate_stream", text, parameters, None)
        waits = Waits.of(timeout or self._timeout)
        with ExitStack() as stack:
            pieces = self._connection.insist(
                lambda _: stack.enter_context(self._connection.stream(call, waits)), waits.answer_s
            )
            parser = EventParser()
            for piece in pieces:
                yield from parser.feed(piece)
