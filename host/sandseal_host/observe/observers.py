"""Who looks at finished inferences: the request log, traces, profiles of slow ones; nobody unless settings say so."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from sandseal_host.errors import SettingsInvalid
from sandseal_host.observe.finished import Finished, Observer
from sandseal_host.observe.profiles import SlowProfiles
from sandseal_host.observe.request_log import RequestLog
from sandseal_host.settings import Settings

if TYPE_CHECKING:
    from sandseal_host.observe.tracing import Tracer

_log = logging.getLogger(__name__)


class Observers:
    """The observers that the settings want.

    Args:
        settings: which.

    Raises:
        SettingsInvalid: traces are wanted, and what they need is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        self._closing: list[Callable[[], None]] = []
        self._each: list[Observer] = []
        self.profiles: SlowProfiles | None = None
        self._tracer: Tracer | None = None
        if settings.log_requests != "none":
            self._each.append(RequestLog(failures_only=settings.log_requests == "failed"))
        if settings.traces_url is not None:
            self._tracer = _tracer(settings.traces_url, settings.traces_share)
            self._each.append(self._tracer)
            self._closing.append(self._tracer.close)
        if settings.profile_slower_s is not None:
            self.profiles = SlowProfiles(settings.profile_slower_s)
            self._each.append(self.profiles)
            self._closing.append(self.profiles.close)

    @property
    def observer(self) -> Observer | None:
        """Shows a finished inference to all; None where there is nobody."""
        return self._show if self._each else None

    @property
    def traced_share(self) -> float | None:
        """The part of the requests that are traced; None where traces are sent nowhere."""
        return None if self._tracer is None else self._tracer.share

    def trace(self, share: float) -> None:
        """Trace this part of the requests from now on, where traces are sent somewhere."""
        if self._tracer is not None:
            self._tracer.share = share

    def close(self) -> None:
        """Let them end what they have begun; blocks."""
        for close in self._closing:
            close()

    def _show(self, finished: Finished) -> None:
        for observer in self._each:
            try:
                observer(finished)
            except Exception:  # harms no answer
                _log.exception("an inference could not be observed")


def _tracer(url: str, share: float) -> "Tracer":
    try:
        from sandseal_host.observe.tracing import Tracer
    except ModuleNotFoundError as missing:
        raise SettingsInvalid(
            f"SANDSEAL_TRACES_URL is set, but {missing.name} is missing", hint="pip install 'sandseal[traces]'"
        ) from None
    return Tracer.to(url, share)
