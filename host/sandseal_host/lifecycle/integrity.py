"""Takes models out of service whose files in the store are being written to, or turn out damaged."""

import asyncio
import logging
import signal
from collections.abc import Callable, Collection, Mapping

from sandseal_host.errors import Damaged, Tampered
from sandseal_host.registry.load_view import LoadViews
from sandseal_host.serving.live import LiveModels
from sandseal_host.serving.model import Model
from sandseal_signing.digest import Digest

_log = logging.getLogger(__name__)


class IntegrityWatch:
    """Listens to the leases of what is loaded by path, and to the scrub; lives on the event loop.

    Args:
        live: the models.
        users: the accepted bundles that have one of these blobs (in hex) as a file, with that file's name.
        withdrawn: called with each model that is taken out of service, and why.
    """

    def __init__(
        self,
        live: LiveModels,
        users: Callable[[Collection[str]], Mapping[Digest, str]],
        withdrawn: Callable[[Model, str], None],
    ) -> None:
        self._live, self._users, self._withdrawn = live, users, withdrawn
        self._loop = asyncio.get_running_loop()
        self._views: LoadViews | None = None
        self._listening = False

    def listen(self) -> None:
        """Handle SIGIO; to be called before the first lease is taken, else none is granted."""
        try:
            self._loop.add_signal_handler(signal.SIGIO, self.look)
        except (AttributeError, NotImplementedError, RuntimeError, ValueError) as error:  # no Unix, or no main thread
            _log.warning("there are no leases here, since SIGIO cannot be handled: %s", error)
        else:
            self._listening = True

    def watch(self, views: LoadViews) -> None:
        """Look at the leases of these from now on."""
        self._views = views

    def look(self) -> None:
        """Take those models out of service of which a file was opened for writing.

        Whoever opened it waits until the running batches have ended and the model's memory is back.
        """
        broken = self._views.broken() if self._views else {}
        for bundle_id, name in broken.items():
            self._withdraw(bundle_id, Tampered(f"tampered: somebody opened {name!r} for writing", file=name))

    def report(self, digest: Digest) -> None:
        """Take the models out of service that use a damaged blob; called on the scrub's thread."""
        users = self._users((digest.hex,))
        for bundle_id, name in users.items():
            _log.error("bundle %s: %r (blob %s) is damaged; push the same .seal again", bundle_id, name, digest)
        if not users:
            _log.error("blob %s is damaged; no accepted bundle uses it", digest)
        self._loop.call_soon_threadsafe(self._damaged, users)

    def close(self) -> None:
        """Listen no more; all leases must have been released."""
        if self._listening:
            self._loop.remove_signal_handler(signal.SIGIO)
            self._listening = False

    def _damaged(self, users: Mapping[Digest, str]) -> None:
        for bundle_id, name in users.items():
            self._withdraw(bundle_id, Damaged(f"damaged: the stored {name!r} is not what was signed", file=name))

    def _withdraw(self, bundle_id: Digest, error: Damaged) -> None:
        for model in self._live.withdraw(bundle_id.hex, error):
            _log.error("%r is taken out of service: %s", model, error.message)
            self._withdrawn(model, error.message)
