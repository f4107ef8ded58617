"""System calls that a process gives up for good: Linux's seccomp, filter mode, on x86-64 and ARM64.

What is refused fails with EPERM; a list of what is allowed would break with every new libc. Threads can be started,
processes cannot.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# <linux/prctl.h>, <linux/seccomp.h>, <linux/audit.h>, <linux/sched.h>
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with the number in the low half
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16  # in struct seccomp_data
_X32_CALLS = 0x40000000
_CLONE_THREAD = 0x00010000

# Classic BPF: load a word, compare, test bits, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

# By what they are for: the name, its number on x86-64, on ARM64 (<asm/unistd_64.h>, <asm-generic/unistd.h>).
REFUSED: Sequence[tuple[str, int | None, int | None]] = (
    # the network; what was connected before stays so
    ("socket", 41, 198), ("socketpair", 53, 199), ("connect", 42, 203), ("bind", 49, 200), ("listen", 50, 201),
    ("accept", 43, 202), ("accept4", 288, 242),
    # other processes, and programs
    ("fork", 57, None), ("vfork", 58, None), ("execve", 59, 221), ("execveat", 322, 281),
    ("ptrace", 101, 117), ("process_vm_readv", 310, 270), ("process_vm_writev", 311, 271),
    ("process_madvise", 440, 440), ("kcmp", 312, 272), ("kill", 62, 129), ("tkill", 200, 130),
    ("rt_sigqueueinfo", 129, 138), ("rt_tgsigqueueinfo", 297, 240), ("pidfd_open", 434, 434), ("pidfd_getfd", 438, 438),
    ("pidfd_send_signal", 424, 424),
    # file systems and namespaces
    ("mount", 165, 40), ("umount2", 166, 39), ("pivot_root", 155, 41), ("chroot", 161, 51), ("open_tree", 428, 428),
    ("move_mount", 429, 429), ("fsopen", 430, 430), ("fsconfig", 431, 431), ("fsmount", 432, 432), ("fspick", 433, 433),
    ("mount_setattr", 442, 442), ("name_to_handle_at", 303, 264), ("open_by_handle_at", 304, 265),
    ("fanotify_init", 300, 262), ("setns", 308, 268), ("unshare", 272, 97),
    # parts of the kernel that plugins have no use for and attackers had
    ("bpf", 321, 280), ("perf_event_open", 298, 241), ("userfaultfd", 323, 282), ("io_uring_setup", 425, 425),
    ("io_uring_enter", 426, 426), ("io_uring_register", 427, 427), ("keyctl", 250, 219), ("add_key", 248, 217),
    ("request_key", 249, 218), ("personality", 135, 92), ("modify_ldt", 154, None), ("ioperm", 173, None),
    ("iopl", 172, None),
    # the machine
    ("init_module", 175, 105), ("finit_module", 313, 273), ("delete_module", 176, 106), ("kexec_load", 246, 104),
    ("kexec_file_load", 320, 294), ("reboot", 169, 142), ("swapon", 167, 224), ("swapoff", 168, 225),
    ("acct", 163, 89), ("quotactl", 179, 60), ("syslog", 103, 116), ("settimeofday", 164, 170),
    ("clock_settime", 227, 112), ("adjtimex", 159, 171), ("clock_adjtime", 305, 266),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Machine:
    """What differs between architectures: AUDIT_ARCH_*, and the numbers of calls."""

    audit: int
    clone: int
    clone3: int
    refused: Sequence[int]


_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(0xC000003E, 56, 435, [x86 for _, x86, _ in REFUSED if x86 is not None]),
    "aarch64": _Machine(0xC00000B7, 220, 435, [arm for _, _, arm in REFUSED if arm is not None]),
}


def refuse_calls() -> bool:
    """Give up the calls in `REFUSED` for this thread and those that it starts; whether the kernel can do that.

    The process must have no new privileges before (PR_SET_NO_NEW_PRIVS).
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    program = b"".join(_program(machine))
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    prctl = ctypes.CDLL(None).prctl
    done: int = prctl(ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_MODE_FILTER), ctypes.c_char_p(header), 0, 0)
    return done == 0


def _program(machine: _Machine) -> Iterable[bytes]:
    """The filter: each test that a call fails or passes ends it, so that no jump is longer than one return."""
    refuse = _REFUSE | errno.EPERM
    yield _instruction(_LOAD, _ARCHITECTURE_AT)
    yield from _return_unless(_EQUAL, machine.audit, refuse)
    yield _instruction(_LOAD, _NUMBER_AT)
    yield from _return_if(_AT_LEAST, _X32_CALLS, refuse)
    # A filter cannot follow the pointer that clone3 takes; without it, libc calls clone.
    yield from _return_if(_EQUAL, machine.clone3, _REFUSE | errno.ENOSYS)
    for number in machine.refused:
        yield from _return_if(_EQUAL, number, refuse)
    yield from _return_unless(_EQUAL, machine.clone, _ALLOW)
    yield _instruction(_LOAD, _FIRST_ARGUMENT_AT)
    yield from _return_if(_ANY_BIT, _CLONE_THREAD, _ALLOW)
    yield _instruction(_RETURN, refuse)


def _return_if(test: int, value: int, verdict: int) -> Iterable[bytes]:
    yield _instruction(test, value, 0, 1)
    yield _instruction(_RETURN, verdict)


def _return_unless(test: int, value: int, verdict: int) -> Iterable[bytes]:
    yield _instruction(test, value, 1, 0)
    yield _instruction(_RETURN, verdict)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
