"""The protocol's calls on the repository, and on what is logged and traced: what over REST is the control plane."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from sandseal_host.api.audit import note_act
from sandseal_host.api.endpoint import Endpoint
from sandseal_host.api.grpc import messages
from sandseal_host.api.grpc.asked import Asked, address_of
from sandseal_host.api.grpc.messages import Message
from sandseal_host.api.metadata import index_entry
from sandseal_host.api.observation import Observation
from sandseal_host.errors import RequestInvalid, UnsupportedRequest
from sandseal_host.registry.tokens import Scope
from sandseal_signing.errors import SandsealError


class ControlCalls:
    """Answers them; every act is in the audit log.

    Args:
        endpoint: the data plane's, whose models, lifecycle and observers these are about.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._models, self._lifecycle = endpoint.models, endpoint.lifecycle
        self._observation = Observation(endpoint.models, endpoint.observers)

    def calls(self) -> dict[str, Callable[[Asked], Awaitable[Message]]]:
        """Every one of them, by name."""
        return {
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": self._load,
            "RepositoryModelUnload": self._unload,
            "TraceSetting": self._trace,
            "LogSettings": self._logging,
        }

    async def _index(self, asked: Asked) -> Message:
        lines = [index_entry(entry) for entry in self._models.index() if asked.grant.sees(entry.name)]
        return messages.RepositoryIndexResponse(
            models=[
                messages.RepositoryIndexResponse.ModelIndex(**line)
                for line in lines
                if not asked.message.ready or line["state"] == "READY"
            ]
        )

    async def _load(self, asked: Asked) -> Message:
        await self._operate("load", asked, set(), self._lifecycle.load)
        return messages.RepositoryModelLoadResponse()

    async def _unload(self, asked: Asked) -> Message:
        await self._operate("unload", asked, {"unload_dependents"}, self._lifecycle.unload)
        return messages.RepositoryModelUnloadResponse()

    async def _operate(self, verb: str, asked: Asked, known: set[str], act: Callable[..., Awaitable[None]]) -> None:
        message = asked.message
        with _audited(f"{verb} {quote(message.model_name)[:128]}", asked):
            asked.grant.need(Scope.OPERATE)
            if unknown := sorted(message.parameters.keys() - known):
                raise UnsupportedRequest(
                    f"parameters {unknown} are not for this host: what runs is what was signed",
                    hint="to change a model, push a new bundle",
                    unknown=unknown,
                )
            asked.grant.need_model(message.model_name)
            await act(message.model_name, None, wait=True)

    async def _trace(self, asked: Asked) -> Message:
        message, grant = asked.message, asked.grant
        if not message.settings:
            grant.need(Scope.AUDIT, Scope.OPERATE)
            found = self._observation.trace(grant, message.model_name)
        else:
            with _audited("trace setting", asked):
                grant.need(Scope.OPERATE)
                wanted = {name: _traced(name, value.value) for name, value in message.settings.items()}
                found = self._observation.set_trace(grant, wanted, message.model_name)
        answer = messages.TraceSettingResponse()
        for name, value in found.items():
            answer.settings[name].value.extend(value if isinstance(value, list) else [value])
        return answer

    async def _logging(self, asked: Asked) -> Message:
        message, grant = asked.message, asked.grant
        if not message.settings:
            grant.need(Scope.AUDIT, Scope.OPERATE)
            found = self._observation.logging()
        else:
            with _audited("log settings", asked):
                grant.need(Scope.OPERATE)
                found = self._observation.set_logging(grant, _logged(message.settings))
        answer = messages.LogSettingsResponse()
        for name, value in found.items():
            setattr(answer.settings[name], _PARAMETERS[type(value)], value)
        return answer


_PARAMETERS = {bool: "bool_param", int: "uint32_param", str: "string_param"}


@contextmanager
def _audited(act: str, asked: Asked) -> Iterator[None]:
    """Write down what is done meanwhile, and how it ends."""
    outcome = "no answer"
    try:
        yield
        outcome = "OK"
    except SandsealError as error:
        outcome = error.code
        raise
    finally:
        note_act(f"gRPC {act}", asked.grant, address_of(asked.context), outcome)


def _traced(name: str, values: Any) -> Any:
    """What is wanted of a trace setting, as REST has it: of the level a list, of others one text."""
    if name == "trace_level":
        return list(values)
    if len(values) != 1:
        raise RequestInvalid(f"setting {name[:80]!r} takes one value, not {len(values)}", setting=name[:80])
    return values[0]


def _logged(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What is wanted of the log settings, as REST has it; one without a value is None, which none takes."""
    chosen = {name: value.WhichOneof("parameter_choice") for name, value in settings.items()}
    return {name: getattr(settings[name], choice) if choice else None for name, choice in chosen.items()}
