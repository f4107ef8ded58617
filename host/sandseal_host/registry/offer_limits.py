"""What offers may take: of a token's share, and of the disk."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from sandseal_host.errors import QuotaExceeded, StoreError, TooLarge
from sandseal_host.registry.files import disk_errors
from sandseal_host.registry.offer import Offer

_WITHDRAW = "finish or withdraw another offer"


@dataclass(frozen=True, slots=True)
class OfferLimits:
    """What offers may take.

    Args:
        open: how many offers one token may have.
        bytes: how many bytes these may have together.
        bundle: how many bytes one bundle may have.
        reserve: bytes of the disk that no offer gets.
        life: how long an offer waits for its blobs.
        share: whether blobs of every accepted model need not be sent again; else only those of models that the same
            rule covers and the token may see, since the answer tells that somebody has them.
        threads: files that are hashed at once when an offer is finished.
    """

    open: int = 8
    bytes: int = 64 << 30
    bundle: int = 16 << 30
    reserve: int = 1 << 30
    life: timedelta = timedelta(hours=24)
    share: bool = False
    threads: int = 2

    def check_bundle(self, size: int) -> None:
        """Check that one bundle is not too large.

        Raises:
            TooLarge: it is.
        """
        if size > self.bundle:
            raise TooLarge(f"the bundle has {size} bytes, over {self.bundle}", limit=self.bundle)

    def check_share(self, others: Sequence[Offer], size: int) -> None:
        """Check that an offer is within its token's share.

        Args:
            others: the token's other offers.
            size: bytes that this one needs.

        Raises:
            QuotaExceeded: with the figures.
        """
        if len(others) >= self.open:
            raise QuotaExceeded(f"this token has {len(others)} open offers", hint=_WITHDRAW, limit=self.open)
        used = sum(offer.size for offer in others)
        if used + size > self.bytes:
            raise QuotaExceeded(
                f"this token's open offers have {used} bytes; {size} more are over {self.bytes}",
                hint=_WITHDRAW,
                used=used,
                size=size,
                limit=self.bytes,
            )

    def check_disk(self, folder: Path, promised: int, size: int) -> None:
        """Check that the disk has room, besides what others were promised and the reserve.

        Args:
            folder: on that disk.
            promised: bytes that other offers still wait for.
            size: bytes that this one still waits for.

        Raises:
            StoreError: it has not.
        """
        with disk_errors(folder, "ask for free space"):
            free = shutil.disk_usage(folder).free
        left = max(free - self.reserve - promised, 0)
        if size > left:
            raise StoreError(
                f"the bundle needs {size} bytes more, the disk has {left} to give",
                hint="free space on the disk of the data folder, or withdraw other offers",
                needed=size,
                free=free,
            )
