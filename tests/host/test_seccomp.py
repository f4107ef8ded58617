"""The list of refused system calls, against the kernel's own headers where they are installed."""

import re
import sys
from pathlib import Path

import pytest

from sandseal_host.seccomp import REFUSED

HEADERS = {
    "x86-64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "arm64": ("/usr/include/asm-generic/unistd.h",),
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these calls")
@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_the_kernels(machine: str) -> None:
    header = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if header is None:
        pytest.skip("the kernel's headers are not installed (linux-libc-dev)")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    known = {name: int(number) for name, number in found}
    ours = {name: numbers[list(HEADERS).index(machine)] for name, *numbers in REFUSED}
    assert ours == {name: known.get(name) for name in ours}


def test_no_call_is_listed_twice() -> None:
    assert len({name for name, *_ in REFUSED}) == len(REFUSED)
