"""Where the registry and the host tell what happened: one hook, for a log that outlives them."""

import logging
from typing import Protocol

from sqlalchemy.orm import Session

from sandseal_signing.logentry import Detail, Kind, Subject

NO_DETAIL = Detail()

_log = logging.getLogger(__name__)


class Journal(Protocol):
    """Takes note of what happens to bundles, keys and the policy; thread-safe."""

    def record(
        self, kind: Kind, actor: str, subject: Subject, detail: Detail = NO_DETAIL, *, session: Session | None = None
    ) -> None:
        """Note one event.

        Args:
            actor: who did it, such as a token's name, never the token.
            session: the transaction that the event is part of: it is noted with it, or not at all.
        """
        ...


class LoggedJournal:
    """A journal of log lines; keeps nothing."""

    def record(
        self, kind: Kind, actor: str, subject: Subject, detail: Detail = NO_DETAIL, *, session: Session | None = None
    ) -> None:
        """Log the event, whether its transaction comes to an end or not."""
        _log.info("%s by %s: %s %s", kind, actor, _shown(subject), _shown(detail))


def _shown(part: Subject | Detail) -> str:
    values = ((name, getattr(part, name)) for name in part.__slots__)
    return " ".join(f"{name}={_text(value)}" for name, value in values if value not in (None, ()))


def _text(value: object) -> str:
    return ",".join(str(item) for item in value) if isinstance(value, tuple) else str(value)
