"""Read leases: the kernel's word that nobody can write to an open file, and its signal before somebody can.

Linux grants one on a local file system to a file's owner (fcntl(2), F_SETLEASE). Whoever opens the file for writing
waits until the lease is released, for /proc/sys/fs/lease-break-time (45 s) at most; its holder gets SIGIO.
"""

import errno
import fcntl
import os
import signal
from io import FileIO


class LeaseRefused(Exception):
    """There is no lease to be had; the message says why. It stays within the registry."""


class Lease:
    """A read lease on a file, from now until `release` or until the file is closed.

    Args:
        file: open for reading only.

    Raises:
        LeaseRefused: the system grants none, or somebody has the file open for writing.
    """

    def __init__(self, file: FileIO) -> None:
        self._file = file
        if not hasattr(fcntl, "F_SETLEASE"):
            raise LeaseRefused("this system knows no leases")
        if signal.getsignal(signal.SIGIO) is signal.SIG_DFL:  # which would end this process
            raise LeaseRefused("nobody in this process handles SIGIO")
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())  # else this thread gets SIGIO, and nobody after its end
        except OSError as error:
            in_use = "somebody has it open for writing" if error.errno == errno.EAGAIN else error.strerror
            raise LeaseRefused(str(in_use)) from error

    @property
    def broken(self) -> bool:
        """Whether somebody has opened the file for writing since, or waits for that."""
        return fcntl.fcntl(self._file, fcntl.F_GETLEASE) != fcntl.F_RDLCK

    def release(self) -> None:
        """Let those who wait go on; the file must be open still."""
        fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
