"""What guests can reach: log, now, random, asset and the WASI shim; and what they cannot make of it."""

import logging
import time

import pytest

from sandbox.guests import ALIAS, DONE, data, floats, guest, stage_spec, tensor_spec
from sandseal_host.errors import PluginTrapped
from sandseal_host.sandbox import SandboxEngine
from sandseal_host.sandbox.imports import FUNCTIONS, MAX_RANDOM, OURS, WASI
from sandseal_host.sandbox.log import BURST, MAX_LINE, GuestLog
from sandseal_signing.stage import IMPORTS

LOG = '(import "sandseal" "log" (func $log (param i32 i32 i32)))'
NOW = '(import "sandseal" "now" (func $now (result i64)))'
RANDOM = '(import "sandseal" "random" (func $random (param i32 i32)))'
ASSET = '(import "sandseal" "asset" (func $asset (param i32 i32 i32 i32) (result i64)))'
OUT = "(call $out (local.get $call) (i32.const 0))"
BLOB = tensor_spec("y", "UINT8", "k")
Lines = list[tuple[str, int, str]]


@pytest.fixture
def lines() -> Lines:
    return []


def give(at: int, size: int) -> str:
    return f"(call $describe {OUT} (i32.const {at}) (i64.const {size}) (i64.const {size})) {DONE}"


def wasi(name: str, kind: str) -> str:
    return f'(import "wasi_snapshot_preview1" "{name}" (func ${name} {kind}))'


def test_the_manifest_and_the_host_know_the_same_imports() -> None:
    assert {name for namespace, name in FUNCTIONS if namespace == OURS} == set(IMPORTS)
    assert {namespace for namespace, _ in FUNCTIONS} == {OURS, WASI}


def log_lines(lines: Lines, body: str, text: bytes = b"", **rest: object) -> Lines:
    sink = lambda label, level, line: lines.append((label, level, line))  # noqa: E731
    with SandboxEngine(log=sink, pooling=False) as engine:
        module = guest(body + ALIAS + DONE, imports=LOG, extra=data(text))
        with engine.compile(module, stage_spec(imports=("log",)), label="acme.pre") as plugin:
            plugin.call([floats(1)])
    return lines


def test_log(lines: Lines) -> None:
    body = "".join(f"(call $log (i32.const {level}) (i32.const 1024) (i32.const 5))" for level in (0, 1, 2, 3, 99, -1))
    log_lines(lines, body, b"hello")
    levels = [logging.DEBUG, logging.INFO, logging.WARNING, *[logging.ERROR] * 3]
    assert lines == [("acme.pre", level, "hello") for level in levels]


def test_log_escapes_what_a_terminal_would_obey(lines: Lines) -> None:
    text = b"\x1b[2J\r\n\x00\xff\xe2\x80\xae ok"
    log_lines(lines, f"(call $log (i32.const 1) (i32.const 1024) (i32.const {len(text)}))", text)
    assert [line for _, _, line in lines] == ["\\x1b[2J\\r\\n\\x00\ufffd\\u202e ok"]


def test_log_cuts_long_lines(lines: Lines) -> None:
    log_lines(lines, "(call $log (i32.const 1) (i32.const 1024) (i32.const 100000))", b"a" * 2000)
    assert [line for _, _, line in lines] == ["a" * MAX_LINE + "…"]


def test_a_log_flood_is_dropped_and_said(lines: Lines) -> None:
    body = """(local $i i32) (loop $l (call $log (i32.const 1) (i32.const 1024) (i32.const 1))
              (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 5000))))"""
    log_lines(lines, body, b"x")
    assert BURST <= len(lines) < 2 * BURST


def test_dropped_lines_are_reported_with_the_next_one(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    log = GuestLog("p", lambda label, level, line: lines.append((label, level, line)))
    for _ in range(BURST + 7):
        log.write(1, b"x")
    now[0] += 1
    log.write(1, b"y")
    assert lines[BURST:] == [("p", logging.WARNING, "(7 lines dropped: too many at once)"), ("p", logging.INFO, "y")]
    assert (log.lines, log.dropped) == (BURST + 1, 7)


def test_a_sink_that_fails_harms_no_call() -> None:
    def sink(label: str, level: int, line: str) -> None:
        raise OSError("disk full")

    module = guest(f"(call $log (i32.const 1) (i32.const 0) (i32.const 1)) {ALIAS} {DONE}", imports=LOG)
    with SandboxEngine(log=sink, pooling=False) as engine, engine.compile(module, stage_spec(imports=("log",))) as p:
        assert p.call([floats(1)])[0].data.tolist() == [1]


def test_lines_go_to_the_logger_by_default(engine: SandboxEngine, caplog: pytest.LogCaptureFixture) -> None:
    body = f"(call $log (i32.const 2) (i32.const 1024) (i32.const 4)) {ALIAS} {DONE}"
    module = guest(body, imports=LOG, extra=data(b"100%"))
    with engine.compile(module, stage_spec(imports=("log",)), label="acme") as plugin:
        plugin.call([floats(1)])
        assert plugin.statistics().log_lines == 1
    assert caplog.record_tuples == [("sandseal.plugin", logging.WARNING, "acme: 100%")]


@pytest.mark.parametrize(
    ("imports", "call"),
    [
        (LOG, "(call $log (i32.const 1) (i32.const 131071) (i32.const 2))"),
        (LOG, "(call $log (i32.const 1) (i32.const -1) (i32.const 1))"),
        (LOG, "(call $log (i32.const 1) (i32.const 0) (i32.const -1))"),
        (RANDOM, "(call $random (i32.const 131071) (i32.const 2))"),
        (ASSET, "(drop (call $asset (i32.const 131071) (i32.const 2) (i32.const 0) (i32.const 0)))"),
        (ASSET, "(drop (call $asset (i32.const 1024) (i32.const 1) (i32.const 131071) (i32.const 99)))"),
        (
            wasi("fd_write", "(param i32 i32 i32 i32) (result i32)"),
            "(drop (call $fd_write (i32.const 1) (i32.const 131066) (i32.const 1) (i32.const 0)))",
        ),
        (
            wasi("args_sizes_get", "(param i32 i32) (result i32)"),
            "(drop (call $args_sizes_get (i32.const 0) (i32.const -4)))",
        ),
    ],
)
def test_a_wild_pointer_traps_like_the_guests_own(engine: SandboxEngine, imports: str, call: str) -> None:
    module = guest(call + ALIAS + DONE, imports=imports, extra=data(b"a"))
    spec = stage_spec(imports=IMPORTS, assets=("a",))
    with engine.compile(module, spec, assets={"a": b"xyz"}) as plugin, pytest.raises(PluginTrapped) as caught:
        plugin.call([floats(1)])
    assert caught.value.data["trap"] == "memory_out_of_bounds"


def test_now(engine: SandboxEngine) -> None:
    module = guest(f"(i64.store (i32.const 8) (call $now)) {give(8, 8)}", imports=NOW)
    before = int(1000 * time.time())
    with engine.compile(module, stage_spec(outputs=(BLOB,), imports=("now",))) as plugin:
        (y,) = plugin.call([floats(1)])
    assert before <= int.from_bytes(y.data.tobytes(), "little") <= 1000 * time.time()


def test_random(engine: SandboxEngine) -> None:
    module = guest(f"(call $random (i32.const 1024) (i32.const 64)) {give(1024, 80)}", imports=RANDOM)
    with engine.compile(module, stage_spec(outputs=(BLOB,), imports=("random",))) as plugin:
        first, second = (plugin.call([floats(1)])[0].data.tobytes() for _ in range(2))
    assert first[:64] != second[:64]
    assert first[64:] == bytes(16)


def test_random_in_bulk_is_refused(engine: SandboxEngine) -> None:
    module = guest(f"(call $random (i32.const 0) (i32.const {MAX_RANDOM + 1})) {ALIAS} {DONE}", imports=RANDOM)
    with engine.compile(module, stage_spec(imports=("random",))) as plugin, pytest.raises(PluginTrapped) as caught:
        plugin.call([floats(1)])
    assert caught.value.data["trap"] == "host_function"
    assert "over 65536" in caught.value.message


def asset(engine: SandboxEngine, name: bytes, capacity: int, **assets: bytes) -> tuple[int, bytes]:
    body = f"""(i64.store (i32.const 2048) (call $asset (i32.const 1024) (i32.const {len(name)})
                                                       (i32.const 2056) (i32.const {capacity}))) {give(2048, 18)}"""
    spec = stage_spec(outputs=(BLOB,), imports=("asset",), assets=("labels.txt",))
    with engine.compile(guest(body, imports=ASSET, extra=data(name)), spec, assets=assets) as plugin:
        raw = plugin.call([floats(1)])[0].data.tobytes()
    return int.from_bytes(raw[:8], "little", signed=True), raw[8:]


def test_asset(engine: SandboxEngine) -> None:
    files = {"labels.txt": b"cat\ndog", "secret.txt": b"no"}
    assert asset(engine, b"labels.txt", 10, **files) == (7, b"cat\ndog\0\0\0")
    assert asset(engine, b"labels.txt", 3, **files) == (7, b"cat" + bytes(7))
    assert asset(engine, b"labels.txt", 0, **files) == (7, bytes(10))
    for name in (b"secret.txt", b"", b"labels.txt\0", b"../labels.txt", b"\xff", b"l" * 300):
        assert asset(engine, name, 10, **files) == (-1, bytes(10))


def test_wasi_writes_go_to_the_log_if_granted(lines: Lines) -> None:
    body = f"""
      (i32.store (i32.const 2048) (i32.const 1024)) (i32.store (i32.const 2052) (i32.const 5))
      (i32.store (i32.const 2056) (i32.const 1029)) (i32.store (i32.const 2060) (i32.const 2))
      (if (call $fd_write (i32.const 2) (i32.const 2048) (i32.const 2) (i32.const 4000)) (then unreachable))
      (if (i32.ne (call $fd_write (i32.const 3) (i32.const 2048) (i32.const 2) (i32.const 4000)) (i32.const 8))
          (then unreachable))
      (if (i32.ne (call $fd_write (i32.const 1) (i32.const 2048) (i32.const 9999) (i32.const 4000)) (i32.const 28))
          (then unreachable))
      {give(4000, 4)}"""
    module = guest(body, imports=wasi("fd_write", "(param i32 i32 i32 i32) (result i32)"), extra=data(b"hello!\n"))
    sink = lambda label, level, line: lines.append((label, level, line))  # noqa: E731
    with SandboxEngine(log=sink, pooling=False) as engine:
        for imports in ((), ("log",)):
            with engine.compile(module, stage_spec(outputs=(BLOB,), imports=imports), label="p") as plugin:
                assert plugin.call([floats(1)])[0].data.tolist() == [7, 0, 0, 0]
    assert lines == [("p", logging.WARNING, "hello!")]


def test_wasi_knows_no_files_and_no_environment(engine: SandboxEngine) -> None:
    imports = "".join(
        (
            wasi("environ_sizes_get", "(param i32 i32) (result i32)"),
            wasi("environ_get", "(param i32 i32) (result i32)"),
            wasi("args_sizes_get", "(param i32 i32) (result i32)"),
            wasi("args_get", "(param i32 i32) (result i32)"),
            wasi("fd_close", "(param i32) (result i32)"),
            wasi("fd_seek", "(param i32 i64 i32 i32) (result i32)"),
            wasi("fd_fdstat_get", "(param i32 i32) (result i32)"),
        )
    )
    two = "(i32.const 1024) (i32.const 1028)"
    answers = [
        f"(call $environ_sizes_get {two})",
        f"(call $environ_get {two})",
        f"(call $args_sizes_get {two})",
        f"(call $args_get {two})",
        "(call $fd_close (i32.const 1))",
        "(call $fd_seek (i32.const 1) (i64.const -1) (i32.const 0) (i32.const 0))",
        "(call $fd_fdstat_get (i32.const 1) (i32.const 0))",
    ]
    stores = "".join(f"(i32.store8 (i32.const {2048 + i}) {call})" for i, call in enumerate(answers))
    module = guest(stores + give(2048, 7), imports=imports, extra=data(b"\xff" * 8))
    with engine.compile(module, stage_spec(outputs=(BLOB,))) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [0, 0, 0, 0, 8, 8, 8]


def test_proc_exit_traps(engine: SandboxEngine) -> None:
    module = guest(f"(call $proc_exit (i32.const 3)) {ALIAS} {DONE}", imports=wasi("proc_exit", "(param i32)"))
    with engine.compile(module, stage_spec(), label="p") as plugin, pytest.raises(PluginTrapped) as caught:
        plugin.call([floats(1)])
    assert caught.value.data["trap"] == "proc_exit"
    assert caught.value.message == "plugin 'p' called proc_exit(3) in run"


def test_an_import_may_be_declared_twice(engine: SandboxEngine) -> None:
    module = guest(f"(drop (call $now)) {ALIAS} {DONE}", imports=NOW + NOW.replace("$now", "$again"))
    with engine.compile(module, stage_spec(imports=("now",))) as plugin:
        assert plugin.call([floats(1)])[0].data.tolist() == [1]
