"""A journal in memory."""

from sandseal_host.registry.journal import NO_DETAIL
from sandseal_signing.logentry import Detail, Kind, Subject


class JournalDouble:
    """Remembers what it is told; `broken`, when set, is raised instead."""

    def __init__(self) -> None:
        self.entries: list[tuple[Kind, str, Subject, Detail]] = []
        self.broken: Exception | None = None

    def record(self, kind, actor, subject, detail=NO_DETAIL, *, session=None) -> None:
        if self.broken is not None:
            raise self.broken
        self.entries.append((kind, actor, subject, detail))

    def kinds(self) -> list[Kind]:
        return [kind for kind, *_ in self.entries]
