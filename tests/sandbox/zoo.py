"""The zoo: hostile and broken guests, each with the exact error that it ends in; `test_zoo.py` runs them all.

Each says when the host refuses it, with which class, and in which words: a regular expression for the whole message,
with `...` for what wasmtime says or another test checks. Guests that end in no error of their own are elsewhere: those
that flood the log in `test_imports.py`, those that remember in `test_plugin.py`, compile bombs in `test_compiler.py`.
"""

from collections.abc import Mapping

from sandbox.animal import (
    ALL,
    AXIS_0,
    AXIS_1,
    AXIS_2,
    BYTE_LEN,
    DATA,
    DEEP,
    DTYPE,
    ESCAPE,
    FLAGS,
    IMPORTS,
    LOOP,
    NEED,
    RANK,
    TABLE,
    Animal,
    alloc,
    bare,
    broken,
    calls,
    describe,
    endless,
    error,
    func,
    gives,
    imported,
    invalid,
    memory,
    misplaced,
    no_room,
    nonsense,
    out,
    shaped,
    traps,
)
from sandbox.guests import ABI, DONE, ECHO, data, guest, refuse, stage_spec, tensor_spec
from sandseal_host.errors import InputRefused, PluginTrapped
from sandseal_host.sandbox.module import MAGIC

NO_MODULES = {
    "no bytes": invalid(b"", r" is not a WebAssembly module: it does not start with '\\0asm' version 1"),
    "a native program": invalid(b"\x7fELF" + bytes(100), " is not a WebAssembly module: ..."),
    "the text form": invalid(b"(module)", " is not a WebAssembly module: ..."),
    "a component": invalid(b"\0asm\x0d\0\x01\0", " is not a WebAssembly module: ..."),
    "magic alone": invalid(MAGIC, f" does not export 'memory'{NEED}memory"),
    "cut short": invalid(guest()[:-7], " is malformed or cut short"),
    "a byte too many": invalid(guest() + b"\x01", " is malformed or cut short"),
    "an endless number": invalid(MAGIC + b"\x01" + b"\xff" * 100, " is malformed or cut short"),
    "four billion types": invalid(MAGIC + b"\x01\x05\xff\xff\xff\xff\x0f", " is malformed or cut short"),
    "a name longer than the module": invalid(MAGIC + b"\x07\x03\x01\xff\x7f", " is malformed or cut short"),
    "an unknown section": invalid(guest() + b"\x20\x00", " does not compile: ..."),
    "a body of another type": invalid(guest().replace(b"\x41\0\x0b", b"\x42\0\x0b"), " does not compile: ..."),
}

WRONG_EXPORTS = {
    "no memory": invalid(bare("(memory 2)"), f" does not export 'memory'{NEED}memory"),
    "memory is a function": invalid(
        bare("(memory 2)", func("memory", "")), rf" exports 'memory' as \(\) -> \(\){NEED}memory"
    ),
    "no abi": invalid(guest(abi=""), rf" does not export 'sandseal_abi'{NEED}\(\) -> \(i32\)"),
    "abi of type i64": invalid(
        guest(abi=func("sandseal_abi", "(result i64)", "(i64.const 1)")),
        rf" exports 'sandseal_abi' as \(\) -> \(i64\){NEED}\(\) -> \(i32\)",
    ),
    "abi 2": invalid(guest(abi=ABI.replace("const 1", "const 2")), " follows ABI version 2; this host knows 1"),
    "no alloc": invalid(guest(alloc=""), rf" does not export 'sandseal_alloc'{NEED}\(i32 i32\) -> \(i32\)"),
    "alloc of one argument": invalid(
        guest(alloc=func("sandseal_alloc", "(param i32) (result i32)", DONE)),
        rf" exports 'sandseal_alloc' as \(i32\) -> \(i32\){NEED}\(i32 i32\) -> \(i32\)",
    ),
    "no stage": invalid(guest(stage="(func)"), rf" does not export 'run'{NEED}\(i32\) -> \(i32\)"),
    "stage without a result": invalid(
        guest(stage=func("run", "(param i32)")), rf" exports 'run' as \(i32\) -> \(\){NEED}\(i32\) -> \(i32\)"
    ),
    "stage is a table": invalid(
        guest(stage='(table (export "run") 1 funcref)'), rf" exports 'run' as table{NEED}\(i32\) -> \(i32\)"
    ),
    # wasmtime 50 aborts the whole process when its C API is asked for this signature.
    "stage of v128": invalid(
        guest(stage=func("run", "(param v128) (result i32)", DONE)),
        rf" exports 'run' as \(v128\) -> \(i32\){NEED}\(i32\) -> \(i32\)",
    ),
    "initialize of one argument": invalid(
        guest(extra=func("_initialize", "(param i32)")),
        rf" exports '_initialize' as \(i32\) -> \(\){NEED}\(\) -> \(\)",
    ),
    "reset of one result": invalid(
        guest(extra=func("sandseal_reset", "(result i32)", DONE)),
        rf" exports 'sandseal_reset' as \(\) -> \(i32\){NEED}\(\) -> \(\)",
    ),
}

FORBIDDEN = {
    "a start function": invalid(guest(extra="(func $s) (start $s)"), " has a start section, ..."),
    "an endless start function": invalid(guest(extra=f"(func $s {LOOP}) (start $s)"), " has a start section, ..."),
    "a system call": invalid(imported("env", "system"), r" imports env\.system, which this host does not offer"),
    "a function of v128": invalid(
        imported("env", "f", "(func (param v128))"), r" imports env\.f, which this host does not offer"
    ),
    "a memory from outside": invalid(
        bare('(import "env" "memory" (memory 2))', '(export "memory" (memory 0))'),
        r" imports env\.memory, which this host does not offer",
    ),
    "a global for a function": invalid(
        imported("sandseal", "now", "(global i64)"), r" imports sandseal\.now as global; it is \(\) -> \(i64\)"
    ),
    "a function of another type": invalid(
        imported("sandseal", "log", "(func (param i32))"),
        r" imports sandseal\.log as \(i32\) -> \(\); it is \(i32 i32 i32\) -> \(\)",
    ),
    "what the stage does not ask for": invalid(
        imported("sandseal", "now", "(func (result i64))"),
        r" imports sandseal\.now, which its stage does not ask for",
    ),
    "files by WASI": invalid(
        imported("wasi_snapshot_preview1", "path_open"),
        r" imports wasi_snapshot_preview1\.path_open, which this host does not offer",
    ),
    "a name that a terminal would obey": invalid(
        imported(ESCAPE, "f"), r" imports \\x1b\[2J\.f, which this host does not offer"
    ),
    "threads": invalid(guest(memory=memory("1 2 shared")), "..."),
    "memory64": invalid(guest(memory=memory("i64 1")), "..."),
    "multi-memory": invalid(guest(extra="(memory 1)"), "..."),
    "exceptions": invalid(guest(extra="(tag (param i32))"), "..."),
    "tail calls": invalid(guest(extra="(func $f (return_call $f))"), "..."),
    "gc": invalid(guest(extra="(type (struct (field i32)))"), "..."),
    "externref": invalid(guest(extra="(global externref (ref.null extern))"), "..."),
    "relaxed SIMD": invalid(
        guest(extra="(func (param v128) (drop (i32x4.relaxed_trunc_f32x4_s (local.get 0))))"), "..."
    ),
}

NO_ROOM = r"has no room for a call of \d+ bytes within its 4 MiB"
GREEDY = {
    "64 KiB more than its limit": no_room(
        guest(memory=memory("65")), "starts with 4 MiB of memory, over its limit of 4", loads=False
    ),
    "4 GiB": no_room(guest(memory=memory("65536")), "starts with 4096 MiB of memory, over its limit of 4", loads=False),
    "a table of 30,000": invalid(guest(extra="(table 30000 funcref)"), "...table..."),
    "five tables": invalid(guest(extra="(table 1 funcref)" * 5), "...table..."),
    "data beyond memory": misplaced('(data (i32.const 131071) "abc")', "memory_out_of_bounds"),
    "elements beyond the table": misplaced(
        f"(table 1 funcref) (elem (i32.const 1) $deep) {DEEP}", "table_out_of_bounds"
    ),
    "an allocator without room": no_room(guest(alloc=alloc(DONE)), NO_ROOM, loads=True),
    "an allocator that grows beyond the limit": no_room(
        guest(alloc=alloc("(i32.add (memory.grow (i32.const 1000)) (i32.const 1))")), NO_ROOM, loads=True
    ),
    "memory that grows for ever": endless(guest(f"(loop $l (drop (memory.grow (i32.const 1))) (br $l)) {DONE}"), "run"),
    "a table that grows for ever": endless(
        guest(f"(loop $l (drop (table.grow (ref.null func) (i32.const 1))) (br $l)) {DONE}", extra="(table 1 funcref)"),
        "run",
    ),
    "64 MiB filled again and again": endless(
        guest(
            f"(loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 0x4000000)) (br $l)) {DONE}",
            memory=memory("1024"),
            alloc=alloc("(i32.const 4096)"),
        ),
        "run",
        stage_spec(memory_mib=64, time_ms=50),
    ),
}

ENDLESS = {
    "in the stage": endless(guest(LOOP + DONE), "run"),
    "in the allocator": endless(guest(alloc=alloc(LOOP + DONE)), "sandseal_alloc"),
    "in its initialisation": endless(guest(extra=func("_initialize", "", LOOP)), "_initialize", loads=False),
    "in the version": endless(
        guest(abi=func("sandseal_abi", "(result i32)", LOOP + DONE)), "sandseal_abi", loads=False
    ),
    "by calls": endless(guest(f"(loop $l (call $f) (br $l)) {DONE}", extra="(func $f)"), "run"),
    "in the log": endless(guest(f"(loop $l {calls('log', 1, 0, 1)} (br $l)) {DONE}", imports=IMPORTS), "run", ALL),
}

TRAPPING = {
    "unreachable": traps("unreachable", "unreachable"),
    "division by zero": traps("(i32.div_u (i32.const 1) (i32.const 0))", "integer_division_by_zero"),
    "overflow": traps("(i32.div_s (i32.const 0x80000000) (i32.const -1))", "integer_overflow"),
    "NaN to an integer": traps("(i32.trunc_f32_s (f32.const nan))", "bad_conversion_to_integer"),
    "infinity to an integer": traps("(i32.trunc_f64_u (f64.const inf))", "integer_overflow"),
    "a wild read": traps("(i32.load (i32.const -4))", "memory_out_of_bounds"),
    "a read across the end": traps("(i32.load (i32.const 131069))", "memory_out_of_bounds"),
    "a wild write": traps(
        "(i32.store offset=0xfffffff0 (i32.const -4) (i32.const 1)) unreachable", "memory_out_of_bounds"
    ),
    "a wild copy": traps(
        "(memory.copy (i32.const 0) (i32.const 8) (i32.const -8)) unreachable", "memory_out_of_bounds"
    ),
    "recursion without end": traps("(call $deep (local.get $call))", "stack_overflow", "deep", extra=DEEP),
    "a null function": traps("(call_indirect (result i32) (i32.const 0))", "indirect_call_to_null", extra=TABLE),
    "a function beyond the table": traps(
        "(call_indirect (result i32) (i32.const 9))", "table_out_of_bounds", extra=TABLE
    ),
    "a function of another type": traps("(call_indirect (result i32) (i32.const 1))", "bad_signature", extra=TABLE),
    "an entry beyond the table": traps(
        "(drop (table.get 0 (i32.const 7))) unreachable", "table_out_of_bounds", extra=TABLE
    ),
    "a name that a terminal would obey": traps(
        "(call $f)", "unreachable", r"\\x1b\[2J", extra=f'(func $f (@name "{ESCAPE}") (result i32) unreachable)'
    ),
    "a log line from nowhere": traps(calls("log", 1, -1, 1) + DONE, "memory_out_of_bounds", imports=IMPORTS, spec=ALL),
    "random numbers to nowhere": traps(
        calls("random", 131071, 2) + DONE, "memory_out_of_bounds", imports=IMPORTS, spec=ALL
    ),
    "an asset's name from nowhere": traps(
        f"(drop {calls('asset', 131071, 2, 0, 0)}) {DONE}", "memory_out_of_bounds", imports=IMPORTS, spec=ALL
    ),
    "a vector from nowhere": traps(calls("write", 1, 131066, 1, 0), "memory_out_of_bounds", imports=IMPORTS, spec=ALL),
    "random numbers in bulk": Animal(
        guest(calls("random", 0, 65537) + DONE, imports=IMPORTS),
        True,
        PluginTrapped,
        "plugin 'bad' asked random for 65537 bytes, over 65536 in run",
        ALL,
        data={"trap": "host_function"},
    ),
    "the end of the process": Animal(
        guest(calls("exit", 3) + DONE, imports=IMPORTS),
        True,
        PluginTrapped,
        r"plugin 'bad' called proc_exit\(3\) in run",
        ALL,
        data={"trap": "proc_exit"},
    ),
    "an error text beside another trap": traps(
        refuse("text", end="(i32.div_u (i32.const 1) (i32.const 0))"),
        "integer_division_by_zero",
        extra=data(b"text"),
    ),
    "an error text out of bounds": traps(refuse("text", end="unreachable").replace("1024", "-2"), "unreachable"),
}

_SHAPE = r"has shape \[{}\], not \[{}\] with \{{'n': 3\}}"
_KIND = "has dtype {}, rank {}, flags {}, not 1, 1, 0"
_PLACE = "has its data at {}: null, or not aligned to 4 bytes"
WILD_ANSWERS = {
    "no answer": nonsense(DONE, ", output 'y': " + _SHAPE.format(-1, "'n'")),
    "data is null": broken(out(DATA, 0), _PLACE.format("0x0")),
    "data unaligned": broken(out(DATA, 4097), _PLACE.format("0x1001")),
    "data beyond memory": broken(out(DATA, 131064), "has 12 bytes at 0x1fff8, beyond the memory's 131072"),
    "data at the end of addresses": broken(out(DATA, -4), "has 12 bytes at 0xfffffffc, beyond the memory's 131072"),
    "data beyond memory that grew": broken(
        f"(drop (memory.grow (i32.const 1))) {out(DATA, 196600)}", "has 12 bytes at 0x2fff8, beyond the memory's 196608"
    ),
    "another data type": broken(out(DTYPE, 6), _KIND.format(6, 1, 0)),
    "no data type": broken(out(DTYPE, -1), _KIND.format(2**32 - 1, 1, 0)),
    "rank 0": broken(out(RANK, 0), _KIND.format(1, 0, 0)),
    "rank 9": broken(out(RANK, 9), _KIND.format(1, 9, 0)),
    "rank 4 billion": broken(out(RANK, -1), _KIND.format(1, 2**32 - 1, 0)),
    "flags": broken(out(FLAGS, 1), _KIND.format(1, 1, 1)),
    "fewer bytes": broken(out(BYTE_LEN, 8), r"has byte_len 8, but \[3\] takes 12"),
    "bytes that wrap": broken(out(BYTE_LEN, 2**32 + 12), r"has byte_len 4294967308, but \[3\] takes 12"),
    "bytes without end": broken(out(BYTE_LEN, -1), r"has byte_len 18446744073709551615, but \[3\] takes 12"),
    "another size than the input's": broken(describe(4096, 8, 2), _SHAPE.format(2, "'n'")),
    "an axis left free": broken(out(AXIS_0, -1), _SHAPE.format(-1, "'n'")),
    "another fixed axis": broken("", _SHAPE.format(3, 4), shaped("FP32", 4)),
    "an axis whose bytes wrap": broken(
        describe(4096, 0, 2**62), f"has byte_len 0, but \\[{2**62}\\] takes {2**64}", shaped("FP32", "k")
    ),
    "two axes whose product wraps": broken(
        describe(4096, 0, 2**32) + out(AXIS_1, 2**32),
        f"has byte_len 0, but \\[{2**32}, {2**32}\\] takes {2**66}",
        shaped("FP32", "a", "b"),
    ),
    "axes that no array can have": broken(
        describe(4096, 0, 2**63 - 1) + out(AXIS_1, 2**63 - 1) + out(AXIS_2, 0),
        f"has shape \\[{2**63 - 1}, {2**63 - 1}, 0\\]: ...",
        shaped("FP32", "a", "b", "c"),
    ),
    "outputs that overlap and multiply": nonsense(
        "".join(describe(8, 100_000, 100_000, index) for index in range(10)) + DONE,
        ", output 'y1': the outputs together have more bytes than the memory's 131072",
        gives(*(tensor_spec(f"y{index}", "UINT8", "k") for index in range(10))),
    ),
    **{
        f"{count} elements in {elements.hex()}": nonsense(
            describe(1024, 5, count) + DONE,
            ", output 'y': ...reaches beyond...",
            shaped("BYTES", "k"),
            extra=data(elements),
        )
        for elements, count in ((b"\1\0\0\0a", 2), (b"\2\0\0\0a", 1), (b"\xff\xff\xff\xffa", 1))
    },
    "bytes after the last element": nonsense(
        describe(1024, 7, 1) + DONE,
        ", output 'y': ...after its 1...",
        shaped("BYTES", "k"),
        extra=data(b"\x01\0\0\0abc"),
    ),
    "more elements than bytes": nonsense(
        describe(1024, 0, 65_537) + DONE, ", output 'y': has 65537 BYTES elements, over 65536", shaped("BYTES", "k")
    ),
    "neither true nor false": nonsense(
        describe(1024, 3, 3) + DONE,
        ", output 'y': has a BOOL element that is neither 0 nor 1",
        shaped("BOOL", "k"),
        extra=data(b"\0\1\2"),
    ),
    **{
        f"an allocator that gives {given}": nonsense(
            ECHO,
            rf": sandseal_alloc returned {given & 0xFFFFFFFF:#x} for \d+ bytes, which is not aligned to 16 bytes"
            " or not all inside its memory",
            alloc=alloc(f"(i32.const {given})"),
        )
        for given in (-16, 131056, 2147483632, 4100, 1)
    },
    **{
        f"status {status}": nonsense(f"(i32.const {status})", f": run returned status {status}; ABI v1 knows 0 to 255")
        for status in (-1, 256, 2**31 - 1)
    },
    **{
        f"{size} bytes of error text at {at}": nonsense(
            error(at, size), r": run refused with status 1, but call\.error points outside its memory"
        )
        for at, size in ((131071, 2), (-1, 1), (0, -1), (-4, 8))
    },
}

REFUSING = {
    "a text that a terminal would obey": Animal(
        guest(refuse("\x1b[2Jno\n"), extra=data(b"\x1b[2Jno\n")),
        True,
        InputRefused,
        r"\\x1b\[2Jno\\n",
        data={"status": 7},
    ),
    "no text": Animal(guest("(i32.const 255)"), True, InputRefused, "the plugin refused the input with status 255"),
    "half a character, then a trap": Animal(
        guest(refuse("xx", end="unreachable"), extra=data(b"\xe2\x82")),
        True,
        InputRefused,
        "\ufffd",
        data={"status": 255},
    ),
    "more text than anybody reads": Animal(
        guest(f"(memory.fill (i32.const 8192) (i32.const 97) (i32.const 5000)) {error(8192, 5000)}"),
        True,
        InputRefused,
        "a{4096}…",
        data={"status": 1},
    ),
}

KINDS: Mapping[str, Mapping[str, Animal]] = {
    "no modules": NO_MODULES,
    "wrong exports": WRONG_EXPORTS,
    "forbidden": FORBIDDEN,
    "greedy": GREEDY,
    "endless": ENDLESS,
    "trapping": TRAPPING,
    "wild answers": WILD_ANSWERS,
    "refusing": REFUSING,
}
ZOO = {f"{kind}: {name}": animal for kind, animals in KINDS.items() for name, animal in animals.items()}
