"""Every way in which the SDK says no, grouped by who must act.

SandsealError (sandseal_signing)
└── SdkError
    ├── PluginFolderInvalid     the plugin's author: plugin.toml or the files it names
    ├── BuildError              the plugin's author: the compiler refuses the source
    ├── CaseInvalid             the plugin's author: a test case that cannot be read
    ├── ModelUnreadable         the publisher: not a model that can be read, or that a manifest can describe
    ├── ModelUnsupported        the publisher: a kind of model that cannot be imported
    ├── ExportFailed            the publisher: a model that its exporter cannot express in ONNX
    ├── ExportDiffers           the publisher: a graph that answers something else than its source
    ├── InputInvalid            the publisher: the inputs given for an export
    ├── PipelineFileInvalid     the publisher: a pipeline's TOML file, or a file it names
    ├── RepositoryInvalid       the publisher: a Triton model repository that cannot be taken in
    ├── FileExists              the user: something is already there
    ├── BundleNotFound          the user: no such file, folder or bundle
    ├── PackageUnavailable      the user: a package on PyPI that pip cannot get
    ├── ExtraMissing            the user: an optional part of the installation
    ├── NotLoggedIn             the user: no host and token to talk to
    ├── TlsFilesInvalid         the user: certificates and keys that cannot be used
    ├── ClientClosed            the caller: a client was used after it was closed
    ├── TensorInvalid           the caller: an array that no datatype of the protocol can carry
    ├── AnswerTooLarge          the caller: more than the client reads into memory
    ├── AnswerInvalid           the operator: what answers is not a Sandseal host, or not one of this protocol
    ├── HostUnreachable         the user, or the operator: no answer
    │   ├── NotConnected        nothing was sent, so it may be sent again
    │   └── NoAnswer            not within the time that the caller gives it
    └── HostRefused             whoever the host's own code and hint name
        ├── RequestRefused      the caller: the request must change
        ├── NotAllowed          the caller: the token, or who signed, does not suffice
        ├── NotFound            the caller: no such thing, none that the token may see, or revoked
        ├── HostConflict        the caller: something else came first
        ├── DeadlinePassed      the caller: it took longer than it may
        ├── HostBusy            the caller, later: see `retry_after`
        └── HostFailed          the operator or the publisher: a good request met a bad plugin, model or host
"""

from collections.abc import Mapping
from typing import Any

from sandseal_signing.errors import SandsealError


class SdkError(SandsealError):
    """Anything the SDK refuses or fails at."""


class PluginFolderInvalid(SdkError):
    """The plugin's author: plugin.toml, or a file that it names, is not right."""

    code = "plugin_folder_invalid"
    hint = "`sandseal new` writes a folder that works; compare with it"


class BuildError(SdkError):
    """The plugin's author: the compiler refuses the source; the message has file, line and its text."""

    code = "build_failed"
    hint = "correct the source at the line named, then build again"


class CaseInvalid(SdkError):
    """The plugin's author: a file under cases/ is not a test case."""

    code = "case_invalid"


class ModelUnreadable(SdkError):
    """The publisher: not a model that can be read, or not one that a manifest can describe."""

    code = "model_unreadable"


class ModelUnsupported(SdkError):
    """The publisher: a kind of model, of numbers or of tokenizer that cannot be imported."""

    code = "model_unsupported"


class ExportFailed(SdkError):
    """The publisher: the model cannot be expressed in ONNX, or the graph does not run."""

    code = "export_failed"


class ExportDiffers(SdkError):
    """The publisher: the exported graph answers something else than its source."""

    code = "export_differs"


class InputInvalid(SdkError):
    """The publisher: what was given as a model's inputs for an export is none, or not of their form."""

    code = "input_invalid"


class PipelineFileInvalid(SdkError):
    """The publisher: the TOML file of a pipeline, or a file that it names, is not right."""

    code = "pipeline_file_invalid"
    hint = "compare with the one in sdk/README.md"


class RepositoryInvalid(SdkError):
    """The publisher: a Triton model repository, or one of its models, that cannot be taken in."""

    code = "repository_invalid"


class FileExists(SdkError):
    """The user: something is already there and is not overwritten."""

    code = "file_exists"


class BundleNotFound(SdkError):
    """The user: nothing of this name can be verified."""

    code = "bundle_not_found"
    hint = "name a .seal file, a folder, or a bundle id together with the host's --data folder"


class PackageUnavailable(SdkError):
    """The user: pip cannot get a package, or it is not the file that was asked for."""

    code = "package_unavailable"
    hint = "check the connection, and that pip reaches PyPI or a mirror of it"


class ExtraMissing(SdkError):
    """The user: this part of Sandseal needs packages of an extra."""

    code = "extra_missing"


class NotLoggedIn(SdkError):
    """The user: no host and token are known."""

    code = "not_logged_in"
    hint = "run `sandseal login URL`, or set SANDSEAL_URL and SANDSEAL_TOKEN"


class TlsFilesInvalid(SdkError):
    """The user: a certificate or key that a connection cannot be made with."""

    code = "tls_files_invalid"
    hint = "name PEM files: the authority's certificate, the client's own, and its key without a passphrase"


class ClientClosed(SdkError):
    """The caller: a client was used after it was closed."""

    code = "client_closed"
    hint = "make another client; one serves many threads and calls"


class TensorInvalid(SdkError):
    """The caller: an array that no datatype of the protocol can carry."""

    code = "tensor_invalid"


class AnswerTooLarge(SdkError):
    """The caller: the answer is larger than the client reads into memory; its connection is broken."""

    code = "answer_too_large"
    hint = "ask for fewer rows or outputs, or make the client with a larger `max_answer_bytes`"


class AnswerInvalid(SdkError):
    """The operator: the answer is not what the protocol says."""

    code = "answer_invalid"
    hint = "check that the address is a Sandseal host's, and what stands between"


class HostUnreachable(SdkError):
    """The host does not answer."""

    code = "host_unreachable"
    hint = "check the address, and that the host runs: `sandseal serve`"


class NotConnected(HostUnreachable):
    """The host takes no connection, so nothing was sent."""

    code = "not_connected"


class NoAnswer(HostUnreachable):
    """The host takes longer than the caller waits."""

    code = "no_answer"
    hint = "give the call more time with `timeout`, or ask the operator what keeps the host"


class HostRefused(SdkError):
    """The host answered with an error; `code` and `hint` are its own.

    Args:
        status: the HTTP status.
        code: the host's stable code.
        retry_after: seconds to wait, when the host says so.
        request_id: the host's name for the request, as its log has it; None where it gave none.
        facts: what else the host's answer holds, under whatever names; kept as `data`.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str,
        hint: str | None = None,
        retry_after: float | None = None,
        request_id: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.data = dict(facts or {})
        self.status = status
        self.code = code  # type: ignore[misc]  # the host's code, not this class's
        self.retry_after = retry_after
        self.request_id = request_id


class RequestRefused(HostRefused):
    """The request must change: 400, 413, 415, 501 and their like."""


class NotAllowed(HostRefused):
    """The token does not reach here, or the policy does not accept who signed: 401, 403."""


class NotFound(HostRefused):
    """No such thing, none that the token may see, or a revoked one: 404, 410."""


class HostConflict(HostRefused):
    """Something else came first: 409."""


class DeadlinePassed(HostRefused):
    """It took longer than it may: 408, 504."""


class HostBusy(HostRefused):
    """The host cannot take it now: 429, 503; `retry_after` says when to come back."""


class HostFailed(HostRefused):
    """A good request met a bad plugin, model or host: 500 and what proxies say."""
