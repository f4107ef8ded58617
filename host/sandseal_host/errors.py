"""Every way in which the host says no, grouped by who must act.

SandsealError (sandseal_signing)
└── HostError
    ├── ClientError                 the caller: the request itself
    │   ├── RequestInvalid          shape, dtype, name, count, JSON, header
    │   ├── TooLarge
    │   ├── QuotaExceeded           of what may wait for more signatures, or be on its way in
    │   ├── UnsupportedRequest
    │   ├── NotAuthenticated
    │   ├── NotPermitted
    │   ├── ModelUnknown
    │   ├── BundleUnknown
    │   ├── BlobUnknown             no such blob in an offer of this token
    │   ├── OffsetWrong             a blob goes on at another byte
    │   ├── OfferIncomplete         blobs are still missing
    │   ├── InputRefused            a plugin looked at the input and said why not
    │   ├── PrecisionUnavailable    the model is served in a coarser one than was asked for
    │   ├── SequenceLost            its model was unloaded, and its state with it
    │   ├── DeadlineExpired
    │   └── ClientGone              nobody is left to answer
    ├── Busy                        the caller, later: see `retry_after`
    │   ├── QueueFull
    │   ├── DeadlineImpossible
    │   ├── SequencesFull           as many sequences are open as may, or their states are as large
    │   ├── NotReady
    │   │   ├── Evicted             it gave its memory to another model
    │   │   └── MemberUnavailable   a model that a pipeline needs does not serve
    │   ├── RateLimited
    │   ├── CircuitOpen             a plugin failed too often lately
    │   └── ShuttingDown
    ├── PluginError                 the plugin's author
    │   ├── PluginInvalid           the module itself: not wasm, wrong exports, forbidden imports
    │   ├── PluginTrapped
    │   │   ├── PluginTimeout
    │   │   └── PluginOutOfMemory
    │   ├── PluginBadOutput
    │   └── PluginLost              its worker process ended under the call, whatever it did
    ├── ModelError                  the publisher
    │   ├── ModelInvalid            the graph: does not load, or is not what the manifest says
    │   ├── ModelFailed             a run failed
    │   ├── Revoked                 it was accepted, and trust in it was withdrawn
    │   └── VersionStale            an older version than one accepted
    └── OperatorError               the operator
        ├── SettingsInvalid
        ├── DeviceUnavailable
        ├── MemoryExhausted
        ├── LoadTimeout             a stage of a load took too long
        ├── Damaged                 a stored file is no longer what was signed
        │   └── Tampered            somebody wrote to it, or was about to
        └── StoreError
"""

from typing import Any

from sandseal_signing.errors import SandsealError


class HostError(SandsealError):
    """Anything the host refuses or fails at."""


class ClientError(HostError):
    """The caller must change the request."""


class RequestInvalid(ClientError):
    """The request does not follow the protocol or the model's signature."""

    code = "request_invalid"
    hint = "compare with GET /v2/models/{model}, which lists names, datatypes and shapes"


class TooLarge(ClientError):
    """The request is larger than the host takes."""

    code = "too_large"
    hint = "send less at once, or ask the operator to raise the limit named"


class QuotaExceeded(ClientError):
    """More bundles of this publisher would wait for signatures, or be on their way in, than may."""

    code = "quota_exceeded"
    hint = "let the others be signed or deleted first, or ask the operator to raise the limit named"


class UnsupportedRequest(ClientError):
    """The protocol knows this, this host or model does not."""

    code = "unsupported"


class NotAuthenticated(ClientError):
    """No token, or one that nobody issued."""

    code = "not_authenticated"
    hint = "send 'Authorization: Bearer <token>'; an operator issues one with `sandseal token add`"


class NotPermitted(ClientError):
    """The token is good but its scopes do not reach here."""

    code = "not_permitted"
    hint = "use a token with the scope named"


class ModelUnknown(ClientError):
    """No such model or version, or none that this token may see."""

    code = "model_unknown"
    hint = "POST /v2/repository/index lists the models that this token may see"


class BundleUnknown(ClientError):
    """No bundle of this id was accepted."""

    code = "bundle_unknown"
    hint = "GET /v1/bundles lists the accepted ones"


class BlobUnknown(ClientError):
    """No such blob in an offer of this token; nothing is said about blobs outside of it."""

    code = "blob_unknown"
    hint = "POST /v1/bundles/offers answers which blobs to send; an offer ends when it is finished or expires"


class OffsetWrong(ClientError):
    """A piece of a blob does not begin where the host's copy ends; `data["offset"]` says where that is."""

    code = "offset_wrong"
    hint = "HEAD the blob and go on at its Upload-Offset, or send it from its first byte"


class OfferIncomplete(ClientError):
    """An offer cannot be finished yet; `data["missing"]` has the digests."""

    code = "offer_incomplete"
    hint = "send the blobs named, then finish again"


class InputRefused(ClientError):
    """A plugin refuses the input; the message is the plugin's own."""

    code = "input_refused"
    hint = "the model's own pre- or post-processing refused this input"


class PrecisionUnavailable(ClientError):
    """The model is served in a coarser precision than the request allows."""

    code = "precision_unavailable"
    hint = "ask for less with sandseal.min_precision, or have the operator raise `precision` in the serving file"


class SequenceLost(ClientError):
    """The model was unloaded while the request's sequence was open, and the sequence's state went with it."""

    code = "sequence_lost"
    hint = "begin the sequence anew, with sequence_start, and send again what its state was made of"


class DeadlineExpired(ClientError):
    """The request's time ran out while it waited."""

    code = "deadline_expired"
    hint = "raise the request's timeout or class, or send less"


class ClientGone(ClientError):
    """The caller closed the connection before the answer."""

    code = "client_gone"


class Busy(HostError):
    """The host cannot take this now; `retry_after` says when to come back, in seconds."""

    def __init__(self, message: str, *, retry_after: float = 1.0, **data: Any) -> None:
        super().__init__(message, **data)
        self.retry_after = retry_after


class QueueFull(Busy):
    """The model's queue is at its bound."""

    code = "queue_full"
    hint = "come back after Retry-After seconds"


class SequencesFull(Busy):
    """As many sequences of the model are open as may, or their states are as large as they may be together."""

    code = "sequences_full"
    hint = "end sequences that are over with sequence_end, or ask the operator to raise SANDSEAL_MAX_SEQUENCES"


class DeadlineImpossible(Busy):
    """At the measured service rate the request would expire before its turn."""

    code = "deadline_impossible"
    hint = "come back after Retry-After seconds, or give the request more time"


class NotReady(Busy):
    """The model is known but not serving."""

    code = "not_ready"
    hint = "wait for GET /v2/models/{model}/ready, or ask the operator to load it"


class Evicted(NotReady):
    """The model was idle, and was unloaded because another one needed its memory."""

    code = "evicted"
    hint = (
        "it comes back when there is room, without the states of its sequences; an operator may load it now, "
        "or give the host more memory"
    )


class MemberUnavailable(NotReady):
    """A pipeline needs a model that does not serve, or that is not the one it is signed for."""

    code = "member_unavailable"
    hint = "ask the operator to load the model named, or one that fits, and wait for GET /v2/models/{model}/ready"


class RateLimited(Busy):
    """The caller asks too often, or failed to authenticate too often."""

    code = "rate_limited"
    hint = "come back after Retry-After seconds"


class CircuitOpen(Busy):
    """A plugin of the model failed several times in a row, and is not tried again for a while."""

    code = "circuit_open"
    hint = "come back after Retry-After seconds; if it goes on, the publisher must look at the plugin"


class ShuttingDown(Busy):
    """The host is stopping."""

    code = "shutting_down"
    hint = "use another host"


class PluginError(HostError):
    """The plugin's author must act; the data names plugin and function."""


class PluginInvalid(PluginError):
    """The module cannot be used at all."""

    code = "plugin_invalid"
    hint = "build it with `sandseal build` and try it with `sandseal test`"


class PluginTrapped(PluginError):
    """The guest trapped; `data["trap"]` has the code, `data["frames"]` where."""

    code = "plugin_trapped"
    hint = "run the same input through `sandseal test` to see the guest's stack"


class PluginTimeout(PluginTrapped):
    """The guest ran longer than its signed time."""

    code = "plugin_timeout"
    hint = "raise limits.time_ms in the manifest, within what the operator's policy allows"


class PluginOutOfMemory(PluginTrapped):
    """The guest wanted more memory than its signed limit."""

    code = "plugin_out_of_memory"
    hint = "raise limits.memory_mib in the manifest, within what the operator's policy allows"


class PluginBadOutput(PluginError):
    """The guest returned something that breaks the ABI or its signed output spec."""

    code = "plugin_bad_output"
    hint = "compare the plugin's outputs with the manifest; `sandseal test` checks them alike"


class PluginLost(PluginError):
    """The process that ran the call ended, or was ended, each time that it was tried."""

    code = "plugin_lost"
    hint = "the host's log says how the process ended; run the same input through `sandseal test`"


class ModelError(HostError):
    """The publisher must act."""


class ModelInvalid(ModelError):
    """The graph does not load, or is not what the manifest says."""

    code = "model_invalid"
    hint = "correct the model or bundle.json, then pack and sign again"


class ModelFailed(ModelError):
    """A run failed inside the model."""

    code = "model_failed"
    hint = "the same input may fail again; the message is ONNX Runtime's"


class Revoked(ModelError):
    """It was accepted once; a revocation, the trust policy or its own expiry has withdrawn that."""

    code = "revoked"
    hint = "use another version; `sandseal trust explain` says what is missing, and the publisher pushes a new one"


class VersionStale(ModelError):
    """A newer version of this name was already accepted."""

    code = "version_stale"
    hint = "raise `version` in bundle.json above the one named, or bring a permit: `sandseal trust permit`"


class OperatorError(HostError):
    """The operator must act."""


class SettingsInvalid(OperatorError):
    """The host's settings contradict each other or the machine."""

    code = "settings_invalid"


class DeviceUnavailable(OperatorError):
    """The configured device cannot be used; the host never falls back to another silently."""

    code = "device_unavailable"
    hint = "`sandseal doctor` says what this machine can do; or set SANDSEAL_DEVICE=cpu"


class MemoryExhausted(OperatorError):
    """The device has no room for this."""

    code = "memory_exhausted"


class LoadTimeout(OperatorError):
    """A stage of a load took longer than the settings allow; `data["stage"]` says which."""

    code = "load_timeout"


class Damaged(OperatorError):
    """A stored file of a model is no longer what was signed."""

    code = "damaged"
    hint = "look at the disk; then push the same .seal file again, which writes it anew and loads it"


class Tampered(Damaged):
    """A file that a model is loaded from was changed, or opened for writing."""

    code = "tampered"
    hint = "find out who writes to the data folder; then push the same .seal file again, or load the model"


class StoreError(OperatorError):
    """The blob store or catalog cannot be read or written."""

    code = "store_failed"
    hint = "check the disk and permissions of the data folder"
