import pytest
from wasmtime import wat2wasm

from sandseal_host.errors import PluginInvalid, PluginOutOfMemory, PluginTrapped
from sandseal_host.sandbox import snapshot, take_snapshot

MEMORY = '(memory (export "memory") 1)'


def taken(body: str, extra: str = "", memory: str = MEMORY, limit: int = 1 << 20) -> snapshot.Snapshot:
    wat = f'(module {extra} {memory} (func $init (export "_initialize") {body}))'
    return take_snapshot(bytes(wat2wasm(wat)), limit, "tried")


def test_memory_and_exported_globals_are_what_initialisation_leaves() -> None:
    found = taken(
        "(i32.store (i32.const 70000) (i32.const 7)) (global.set $n (i64.const -5)) (global.set $x (f64.const 0.5))",
        extra='(global $n (export "n") (mut i64) (i64.const 1)) (global $x (export "x") (mut f64) (f64.const 1))',
        memory='(memory (export "memory") 2)',
    )
    assert (len(found.memory), found.memory[70000], found.globals) == (2 << 16, 7, {"n": -5, "x": 0.5})


def test_instructions_are_counted_and_the_same_each_time() -> None:
    loop = "(local $i i32) (loop $l (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1)))"
    first, again = (taken(f"{loop} (i32.const 1000))))").fuel for _ in range(2))
    assert first == again > 1000


@pytest.mark.parametrize(
    ("body", "extra", "why"),
    [
        ("(unreachable)", "", "traps: unreachable"),
        ("(loop $l (br $l))", "", "runs more than 100,000 instructions"),
        ("(call $now) drop", '(import "sandseal" "now" (func $now (result i64)))', r"calls sandseal\.now"),
    ],
)
def test_what_cannot_run_at_build_time_says_why(monkeypatch, body: str, extra: str, why: str) -> None:
    monkeypatch.setattr(snapshot, "MAX_FUEL", 100_000)
    with pytest.raises(PluginTrapped, match=why):
        taken(body, extra)


TABLE = '(table $t (export "table0") 2 8 funcref) (elem (i32.const 0) $f) (elem declare func $g) (func $f) (func $g)'


@pytest.mark.parametrize(
    "change", ["(table.set $t (i32.const 1) (ref.func $g))", "(drop (table.grow $t (ref.null func) (i32.const 1)))"]
)
def test_a_changed_table_is_refused(change: str) -> None:
    taken("(table.set $t (i32.const 0) (ref.func $f))", TABLE)
    with pytest.raises(PluginInvalid, match="changes a table"):
        taken(change, TABLE)


def test_memory_stays_within_the_limit() -> None:
    grow = "(if (i32.ge_s (memory.grow (i32.const 31)) (i32.const 0)) (then (unreachable)))"
    assert len(taken(grow).memory) == 1 << 16
    with pytest.raises(PluginOutOfMemory):
        taken("", memory='(memory (export "memory") 17)')


def test_only_a_function_of_the_right_type_is_called() -> None:
    wat = f'(module {MEMORY} (func (export "_initialize") (param v128)))'
    with pytest.raises(PluginInvalid, match="take and return nothing"):
        take_snapshot(bytes(wat2wasm(wat)), 1 << 20, "tried")


def test_what_does_not_compile_is_translated() -> None:
    with pytest.raises(PluginInvalid, match="cannot be initialised"):
        taken("", memory=MEMORY + " " + MEMORY.replace('memory")', 'second")'))
