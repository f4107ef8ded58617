"""What a process gives up for good before it touches bytes that may be made to harm it.

Resource limits hold wherever Python has them. The rest is Linux's: a network and a user namespace of its own, no new
privileges, death with the parent, Landlock, after which it opens nothing but what it was left, and seccomp
(`seccomp.py`).
"""

import ctypes
import os
import resource
import struct
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sandseal_host.seccomp import refuse_calls

# What a system may not let a process have.
_NETWORK, _USERS, _FILES = "a network of its own", "a user namespace of its own", "closed files (Landlock)"
_CALLS = "refused system calls (seccomp)"

_LARGEST_FILE = 64 << 20  # wasmtime keeps a module's data in a memfd, and a module has at most 64 MiB
_OPEN_FILES = 64
_SPARE_THREADS = 64  # wasmtime's compilers, tickers, ONNX Runtime's own

# <linux/prctl.h>, <linux/sched.h>
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 38, 9
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000

# <linux/landlock.h>: system calls 444 to 446, the same on every architecture that Python runs on.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_GET_VERSION, _BENEATH = 1, 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_FILE_RIGHTS = (13, 14, 15, 15, 16)  # how many of them versions 1 to 5 know; later ones added none so far
_TCP, _TCP_SINCE = 0b11, 4
_SIGNALS_AND_SOCKETS, _SCOPES_SINCE = 0b11, 6  # of processes outside


def confine(
    *, memory: int, cpu_s: int | None, threads: int, readable: Iterable[str] | None, largest_file: int = _LARGEST_FILE
) -> tuple[str, ...]:
    """Limit this process and whatever it starts; to be called while it has one thread.

    Args:
        memory: bytes of heap, thread stacks and private mappings (RLIMIT_DATA: under RLIMIT_AS wasmtime aborts).
        cpu_s: seconds of processor time, all threads together; SIGXCPU ends the process then. None is no limit.
        threads: that the work itself needs at once.
        readable: files and folders that it can still open for reading; None leaves all files and system calls as
            they are.
        largest_file: bytes up to which it can write to what it was left open; by default enough for wasmtime's own.

    Returns:
        What this system could not do, as nouns for a log line.
    """
    linux = sys.platform == "linux"
    missing = _leave_namespaces() if linux else [_NETWORK, "a limit of memory"]
    if linux:
        _die_with_parent()
        with suppress(OSError):  # where memory is short, this process goes first
            Path("/proc/self/oom_score_adj").write_text("1000")
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, largest_file)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    if cpu_s is not None:
        _limit(resource.RLIMIT_CPU, cpu_s, cpu_s + 1)
    _limit(resource.RLIMIT_DATA, memory)
    if linux and _USERS not in missing:
        _limit_threads(threads + _SPARE_THREADS)
    if readable is None or not (linux and _leave_files(readable)):
        missing.append(_FILES)
    if readable is None or not (linux and refuse_calls()):
        missing.append(_CALLS)
    return tuple(missing)


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Lower a limit; `hard` is the same as `soft` by default. One that is lower already stays."""
    _, present = resource.getrlimit(kind)
    highest = soft if hard is None else hard
    if present != resource.RLIM_INFINITY:
        highest = min(highest, present)
    with suppress(OSError, ValueError):  # macOS knows kinds that it does not let be set
        resource.setrlimit(kind, (min(soft, highest), highest))


def _limit_threads(most: int) -> None:
    """Limit threads and processes of this namespace.

    Before Linux 5.14 all that the user runs outside of it counts too; where so no thread starts, there is no limit.
    """
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (min(most, before[1]) if before[1] >= 0 else most, before[1]))
    probe = threading.Thread(target=int)
    try:
        probe.start()
    except RuntimeError:
        resource.setrlimit(resource.RLIMIT_NPROC, before)
    else:
        probe.join()
        _limit(resource.RLIMIT_NPROC, most)


def _leave_namespaces() -> list[str]:
    """Leave the host's network, and its user namespace, so that no process outside can be traced; what failed.

    Unprivileged users may make a network only in a user namespace of theirs, where the system lets them make that.
    """
    wanted = {_CLONE_NEWNET: _NETWORK, _CLONE_NEWUSER: _USERS}
    unshare = ctypes.CDLL(None, use_errno=True).unshare  # os.unshare is Python 3.12's
    for flags in (_CLONE_NEWUSER | _CLONE_NEWNET, _CLONE_NEWNET, _CLONE_NEWUSER):
        if unshare(ctypes.c_int(flags)) == 0:
            return [name for flag, name in wanted.items() if not flags & flag]
    return list(wanted.values())


def _die_with_parent() -> None:
    """Die with the thread that started this process, and gain nothing by running programs."""
    prctl = ctypes.CDLL(None).prctl
    for option, value in ((_PR_SET_PDEATHSIG, _SIGKILL), (_PR_SET_NO_NEW_PRIVS, 1)):
        prctl(ctypes.c_int(option), *(ctypes.c_ulong(number) for number in (value, 0, 0, 0)))


def _leave_files(readable: Iterable[str]) -> bool:
    """Give up opening, making and running files except for reading these; whether the kernel can do that."""
    version = _landlock(_CREATE_RULESET, None, 0, _GET_VERSION)
    if version < 1:
        return False
    rights = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS)) - 1]) - 1
    network = _TCP if version >= _TCP_SINCE else 0
    scopes = _SIGNALS_AND_SOCKETS if version >= _SCOPES_SINCE else 0
    attributes = struct.pack("=QQQ", rights, network, scopes)
    ruleset = _landlock(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for path in readable:
            _allow_reading(ruleset, path)
        return _landlock(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow_reading(ruleset: int, path: str) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there need not be read
    try:
        rights = _READ_FILE | (_READ_FOLDER if Path(path).is_dir() else 0)
        _landlock(_ADD_RULE, ruleset, _BENEATH, struct.pack("=Qi", rights, beneath), 0)
    finally:
        os.close(beneath)


def _landlock(call: int, *arguments: int | bytes | None) -> int:
    """A system call's result, negative where it failed."""
    syscall = ctypes.CDLL(None).syscall
    syscall.restype = ctypes.c_long
    return int(syscall(*(ctypes.c_long(a) if isinstance(a, int) else a for a in (call, *arguments))))
