"""System calls that a process gives up for good: Linux's seccomp, filter mode, on x86-64 and ARM64.

What is refused fails with EPERM; a list of what is allowed would break with every new libc. Threads can be started,
processes cannot; what takes the number of a process or the name of a file is refused even where Landlock, or the
user namespace, would refuse it too: they do not know chmod, nor setpriority.
"""

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# <linux/prctl.h>, <linux/seccomp.h>, <linux/audit.h>, <linux/sched.h>
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000  # SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO with the number in the low half
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in struct seccomp_data
_X32_CALLS = 0x40000000
_CLONE_THREAD = 0x00010000
_PR_SET_PDEATHSIG, _F_SETOWN, _F_SETOWN_EX, _FIOSETOWN, _SIOCSPGRP = 1, 8, 15, 0x8901, 0x8902

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
    ("pidfd_send_signal", 424, 424), ("setpriority", 141, 140), ("ioprio_set", 251, 30),
    ("sched_setaffinity", 203, 122), ("sched_setscheduler", 144, 119), ("sched_setparam", 142, 118),
    ("sched_setattr", 314, 274), ("migrate_pages", 256, 238), ("move_pages", 279, 239),
    # what outlives a process, and is the user's, not the process's
    ("shmget", 29, 194), ("shmat", 30, 196), ("shmctl", 31, 195), ("msgget", 68, 186), ("msgsnd", 69, 189),
    ("msgrcv", 70, 188), ("msgctl", 71, 187), ("semget", 64, 190), ("semop", 65, 193), ("semctl", 66, 191),
    ("semtimedop", 220, 192), ("mq_open", 240, 180), ("mq_unlink", 241, 181),
    # of files, what Landlock leaves: modes, owners, times, attributes, watching; and sizes before its version 3
    ("chmod", 90, None), ("fchmod", 91, 52), ("fchmodat", 268, 53), ("fchmodat2", 452, 452), ("chown", 92, None),
    ("fchown", 93, 55), ("lchown", 94, None), ("fchownat", 260, 54), ("utime", 132, None), ("utimes", 235, None),
    ("futimesat", 261, None), ("utimensat", 280, 88), ("setxattr", 188, 5), ("lsetxattr", 189, 6),
    ("fsetxattr", 190, 7), ("setxattrat", 463, 463), ("removexattr", 197, 14), ("lremovexattr", 198, 15),
    ("fremovexattr", 199, 16), ("removexattrat", 466, 466), ("truncate", 76, 45), ("inotify_init", 253, None),
    ("inotify_init1", 294, 26),
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
class Narrowed:
    """A call that one of its arguments decides on.

    Args:
        name: the call's.
        numbers: on x86-64, on ARM64.
        argument: which; the kernel too looks at no more than 32 bits of these.
        test: classic BPF's.
        values: those that pass the test.
        allowed: whether a value that passes is what is left, or what is refused.
    """

    name: str
    numbers: tuple[int, int]
    argument: int
    test: int
    values: Sequence[int]
    allowed: bool


def narrowed(pid: int) -> Sequence[Narrowed]:
    """What is left of some calls to the process `pid`."""
    return (
        Narrowed("clone", (56, 220), 0, _ANY_BIT, [_CLONE_THREAD], allowed=True),
        Narrowed("tgkill", (234, 131), 0, _EQUAL, [pid], allowed=True),  # abort() needs it
        Narrowed("prlimit64", (302, 261), 0, _EQUAL, [0, pid], allowed=True),
        # Who owns a descriptor gets a signal, any that one chooses, when there is something to read.
        Narrowed("fcntl", (72, 25), 1, _EQUAL, [_F_SETOWN, _F_SETOWN_EX], allowed=False),
        Narrowed("ioctl", (16, 29), 1, _EQUAL, [_FIOSETOWN, _SIOCSPGRP], allowed=False),
        Narrowed("prctl", (157, 167), 0, _EQUAL, [_PR_SET_PDEATHSIG], allowed=False),
    )


# AUDIT_ARCH_*, and which of the two columns of numbers is the machine's.
_MACHINES: Mapping[str, tuple[int, int]] = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_CLONE3 = 435  # on both


def refuse_calls() -> bool:
    """Give up the calls in `REFUSED` for this thread and those that it starts; whether the kernel can do that.

    The process must have no new privileges before (PR_SET_NO_NEW_PRIVS).
    """
    machine = _MACHINES.get(platform.machine())
    if machine is None:
        return False
    program = b"".join(_program(*machine))
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    prctl = ctypes.CDLL(None).prctl
    done: int = prctl(ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(_MODE_FILTER), ctypes.c_char_p(header), 0, 0)
    return done == 0


def _program(audit: int, column: int) -> Iterable[bytes]:
    """The filter: each test that a call fails or passes ends it, so that no jump is longer than one call's tests."""
    refuse = _REFUSE | errno.EPERM
    yield _instruction(_LOAD, _ARCHITECTURE_AT)
    yield from _return_unless(_EQUAL, audit, refuse)
    yield _instruction(_LOAD, _NUMBER_AT)
    yield from _return_if(_AT_LEAST, _X32_CALLS, refuse)
    # A filter cannot follow the pointer that clone3 takes; without it, libc calls clone.
    yield from _return_if(_EQUAL, _CLONE3, _REFUSE | errno.ENOSYS)
    for _, *numbers in REFUSED:
        if (number := numbers[column]) is not None:
            yield from _return_if(_EQUAL, number, refuse)
    for call in narrowed(os.getpid()):
        yield from _narrow(call.numbers[column], call, refuse)
    yield _instruction(_RETURN, _ALLOW)


def _narrow(number: int, call: Narrowed, refuse: int) -> Iterable[bytes]:
    """Decide on one call; all others go on behind this."""
    passes, fails = (_ALLOW, refuse) if call.allowed else (refuse, _ALLOW)
    body = [_instruction(_LOAD, _ARGUMENTS_AT + 8 * call.argument)]
    for value in call.values:
        body += _return_if(call.test, value, passes)
    body.append(_instruction(_RETURN, fails))
    yield _instruction(_EQUAL, number, 0, len(body))
    yield from body


def _return_if(test: int, value: int, verdict: int) -> Iterable[bytes]:
    yield _instruction(test, value, 0, 1)
    yield _instruction(_RETURN, verdict)


def _return_unless(test: int, value: int, verdict: int) -> Iterable[bytes]:
    yield _instruction(test, value, 1, 0)
    yield _instruction(_RETURN, verdict)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
