"""Which versions of a model serve side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """The operator's wish for one model.

    Args:
        latest: serve so many, those that were put into service last; None = all.
        only: serve none but these; None = any.
    """

    latest: int | None = 1
    only: frozenset[int] | None = None

    def takes(self, version: int) -> bool:
        """Whether a push puts this version into service."""
        return self.only is None or version in self.only

    def beside(self, others: Sequence[int]) -> frozenset[int]:
        """Those of the others that go on serving beside one that is put into service now.

        Args:
            others: the one that was put into service last comes first.
        """
        return frozenset(others if self.latest is None else others[: self.latest - 1])

    def chosen(self, accepted: Sequence[int], turns: Mapping[int, int]) -> list[int]:
        """The versions that should serve, the most important one first.

        Args:
            accepted: the one that was accepted last comes first.
            turns: the higher, the later a version was put into service; 0 = it was taken out by hand.
        """
        wanted = [version for version in accepted if turns.get(version) != 0 and self.takes(version)]
        wanted.sort(key=lambda version: turns.get(version, 0), reverse=True)
        return wanted[: self.latest]
