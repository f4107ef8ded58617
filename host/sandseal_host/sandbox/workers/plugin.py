"""A plugin as workers get it: in a file without a name, which nobody can change any more, since they all read it."""

import mmap
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass

from sandseal_signing.stage import StageSpec


@dataclass(frozen=True, slots=True)
class WorkerPlugin:
    """What `SandboxEngine.compile` needs in a worker.

    Args:
        label: names the plugin in errors and logs.
        spec: the signed stage.
        wasm: the module as signed.
        code: its native code, as `SandboxEngine.code` gave it in the host.
        assets: the signed files that the stage lists, by name.
    """

    label: str
    spec: StageSpec
    wasm: bytes
    code: bytes
    assets: Mapping[str, bytes]

    def seal(self) -> int:
        """A descriptor of a sealed file with all of this; only Linux has such files."""
        from fcntl import F_ADD_SEALS, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, fcntl

        file = os.memfd_create("sandseal-plugin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with os.fdopen(os.dup(file), "wb") as writer:
            pickle.dump(self, writer)
        fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
        return file

    @staticmethod
    def open(file: int) -> "WorkerPlugin":
        """What the host sealed; closes the descriptor. The position in the file is every worker's, so it is mapped."""
        with mmap.mmap(file, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as sealed:
            os.close(file)
            plugin: WorkerPlugin = pickle.loads(sealed)  # noqa: S301 - only the host writes such a file
        return plugin
