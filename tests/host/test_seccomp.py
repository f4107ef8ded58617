"""Refused system calls: their numbers against the kernel's own headers, and what they keep a process from."""

import errno
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandseal_host.seccomp import REFUSED, narrowed

HEADERS = {
    "x86-64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "arm64": ("/usr/include/asm-generic/unistd.h",),
}
NEWEST = 450  # call of Linux 6.2; older headers do not know those behind it


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these calls")
@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_the_kernels(machine: str) -> None:
    header = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed (linux-libc-dev)")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    known = {name: int(number) for name, number in found}
    listed = [*REFUSED, *((call.name, *call.numbers) for call in narrowed(1))]
    ours = {name: numbers[list(HEADERS).index(machine)] for name, *numbers in listed}
    new = {name for name, number in ours.items() if name not in known and number and number > NEWEST}
    assert {name: number for name, number in ours.items() if name not in new} == {
        name: known.get(name) for name in ours if name not in new
    }


def test_no_call_is_listed_twice() -> None:
    assert len({name for name, *_ in REFUSED}) == len(REFUSED)


TRY = """
import ctypes, fcntl, json, os, resource, socket, sys
from sandseal_host.seccomp import refuse_calls

libc, path = ctypes.CDLL(None, use_errno=True), sys.argv[1]
ours, theirs = socket.socketpair()

def raw(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)

libc.prctl(38, 1, 0, 0, 0)
assert refuse_calls()
parent, me = os.getppid(), os.getpid()
number = {"x86_64": 234, "aarch64": 131}[os.uname().machine]
tries = {
    "signal a thread of the parent": lambda: raw("syscall", number, parent, parent, 0),
    "have a socket signal the parent": lambda: fcntl.fcntl(ours, fcntl.F_SETOWN, parent),
    "have it by another call": lambda: fcntl.ioctl(ours, 0x8901, parent.to_bytes(4, sys.byteorder)),
    "limit the parent": lambda: resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0)),
    "see the parent's limits": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
    "slow the parent down": lambda: os.setpriority(os.PRIO_PROCESS, parent, 19),
    "put the parent on one core": lambda: os.sched_setaffinity(parent, {min(os.sched_getaffinity(parent))}),
    "let the parent run when all others idle": lambda: os.sched_setscheduler(parent, 5, os.sched_param(0)),
    "open a file to others": lambda: os.chmod(path, 0o777),
    "give a file away": lambda: os.chown(path, os.getuid(), os.getgid()),
    "change a file's times": lambda: os.utime(path),
    "note something at a file": lambda: os.setxattr(path, "user.sandseal", b"x"),
    "shorten a file": lambda: os.truncate(path, 0),
    "leave memory behind": lambda: raw("shmget", 0, 4096, 0o1600),
    "leave messages behind": lambda: raw("msgget", 0, 0o1600),
    "leave semaphores behind": lambda: raw("semget", 0, 1, 0o1600),
    "outlive the parent": lambda: raw("prctl", 1, 0, 0, 0, 0),
    "fork": os.fork,
    "signal a thread of its own": lambda: raw("syscall", number, me, me, 0),
    "see limits of its own": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    "open descriptors without blocking": lambda: os.set_blocking(ours.fileno(), False),
}
found = {}
for name, attempt in tries.items():
    try:
        attempt()
    except OSError as error:
        found[name] = error.errno
    else:
        found[name] = 0
print(json.dumps(found))
"""
LEFT = {"signal a thread of its own", "see limits of its own", "open descriptors without blocking"}


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="its calls have no numbers here")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these calls")
def test_alone_it_keeps_a_process_from_its_parent_and_from_files(tmp_path: Path) -> None:
    """Without Landlock, whose older versions leave signals and which no version makes refuse chmod or priorities."""
    path = tmp_path / "file"
    path.write_text("data")
    path.chmod(0o600)
    command = [sys.executable, "-P", "-B", "-c", TRY, str(path)]
    child = subprocess.run(command, capture_output=True, check=True, timeout=300)
    found = json.loads(child.stdout)
    assert {name for name, number in found.items() if number == 0} == LEFT
    assert {number for number in found.values() if number} == {errno.EPERM}
    assert path.stat().st_mode & 0o777 == 0o600
