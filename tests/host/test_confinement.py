"""What a confined process cannot do any more, tried from inside one."""

import json
import socket
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has more than resource limits"),
]

TRY = """
import json, os, resource, socket, subprocess, sys, threading
from sandseal_host.confinement import confine

def tried(what):
    try:
        return ["did", repr(what())]
    except Exception as error:
        return ["failed", repr(error)]

def start_threads():
    idle = threading.Event()
    try:
        for n in range(200):
            threading.Thread(target=idle.wait).start()
    finally:
        idle.set()

given = json.loads(sys.argv[1])
missing = confine(memory=256 << 20, cpu_s=20, threads=1, readable=[sys.prefix, sys.base_prefix, given["readable"]])
found = {
    "read what is left": tried(lambda: open(given["readable"] + "/file").read()),
    "read another file": tried(lambda: open(given["closed"]).read()),
    "write a file": tried(lambda: open(given["readable"] + "/new", "wb")),
    "grow an open file": tried(lambda: os.pwrite(given["open"], b"x", 64 << 20)),
    "delete a file": tried(lambda: os.unlink(given["closed"])),
    "run a program": tried(lambda: subprocess.run([sys.executable, "-c", ""])),
    "connect": tried(lambda: socket.create_connection(("127.0.0.1", given["port"]), 5)),
    "signal the parent": tried(lambda: os.kill(os.getppid(), 0)),
    "open a socket": tried(socket.socket),
    "fork": tried(os.fork),
    "read the parent's environment": tried(lambda: open(f"/proc/{os.getppid()}/environ").read()),
    "take memory": tried(lambda: len(bytearray(400 << 20))),
    "open many files": tried(lambda: [os.dup(0) for _ in range(100)]),
    "start many threads": tried(start_threads),
}
limits = {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("CORE", "FSIZE", "CPU", "DATA")}
print(json.dumps([list(missing), found, limits]))
"""

# What a system that grants no namespace or has no Landlock leaves possible; the vetting's log says so there.
NEEDS = {
    "read another file": "closed files (Landlock)",
    "write a file": "closed files (Landlock)",
    "delete a file": "closed files (Landlock)",
    "run a program": "refused system calls (seccomp)",
    "open a socket": "refused system calls (seccomp)",
    "fork": "refused system calls (seccomp)",
    "signal the parent": "closed files (Landlock)",
    "connect": "a network of its own",
    "read the parent's environment": "a user namespace of its own",
    "start many threads": "a user namespace of its own",
    "grow an open file": "",
    "take memory": "",
    "open many files": "",
}


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """What a confined process could do, by name; what its system did not grant; its limits."""
    folder = tmp_path_factory.mktemp("confined")
    (folder / "file").write_text("left")
    closed = tmp_path_factory.mktemp("closed") / "token"
    closed.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as server, (folder / "open").open("wb") as file:
        port = server.getsockname()[1]
        given = {"readable": str(folder), "closed": str(closed), "open": file.fileno(), "port": port}
        command = [sys.executable, "-P", "-B", "-c", TRY, json.dumps(given)]
        child = subprocess.run(command, capture_output=True, pass_fds=[file.fileno()], check=True, timeout=300)
    assert closed.exists()
    return json.loads(child.stdout)


@pytest.mark.parametrize("what", NEEDS)
def test_cannot(inside, what):
    missing, found, _ = inside
    if NEEDS[what] in missing:
        pytest.skip(f"this system does not grant {NEEDS[what]}")
    assert found[what][0] == "failed", found[what]


def test_can_read_what_it_was_left(inside):
    assert inside[1]["read what is left"] == ["did", "'left'"]


def test_limits_hold_for_good(inside):
    assert inside[2] == {"CORE": [0, 0], "FSIZE": [64 << 20, 64 << 20], "CPU": [20, 21], "DATA": [256 << 20, 256 << 20]}
