"""Modules whose initialisation is baked in, run afterwards by wasmtime as it comes."""

import time
from functools import partial
from statistics import median

import numpy as np
import pytest
from wasmtime import Engine, Instance, Module, Store, wat2wasm

from sandseal_host.sandbox import take_snapshot
from sandseal_sdk.build import build_plugin
from sandseal_sdk.errors import BuildError
from sandseal_sdk.plugin import preinit
from sandseal_sdk.plugin.preinit import preinitialise
from sandseal_sdk.plugin.wasm_module import Id, read_sections, read_surface

WAT = """
(module
  (table 2 funcref) (elem (i32.const 0) $get)
  (memory (export "memory") 1 {most})
  (global $fixed i32 (i32.const 40))
  (global $n (mut i32) (i32.const 1)) (global $wide (mut i64) (i64.const 2))
  (global $f (mut f32) (f32.const 0)) (global $d (mut f64) (f64.const 0))
  (data $own (i32.const 16) "own") (data $later "later")
  (func $get (export "get") (param i32) (result i32) (i32.load8_u (local.get 0)))
  (func (export "n") (result i32) (global.get $n)) (func (export "wide") (result i64) (global.get $wide))
  (func (export "f") (result f32) (global.get $f)) (func (export "d") (result f64) (global.get $d))
  (func (export "copy") (memory.init $later (i32.const 0) (i32.const 0) (i32.const 5)))
  (func (export "_initialize") (local $i i32)
    (global.set $n (i32.sub (global.get $n) (i32.const 200))) (global.set $wide (i64.const 0x7fffffffffffffff))
    (global.set $f (f32.const -0.1)) (global.set $d (f64.const 1e300))
    {body}))
"""
FILL = """(drop (memory.grow (i32.const 2))) (memory.fill (i32.const 0) (i32.const 0) (i32.const 17))
  (i32.store8 (i32.const 5000) (i32.const 9)) (memory.fill (i32.const 131072) (i32.const 3) (i32.const 5))"""


def baked(body=FILL, most="", limit=16):
    wasm = bytes(wat2wasm(WAT.format(body=body, most=most)))
    return preinitialise(wasm, partial(take_snapshot, memory_limit=limit << 16, label="tried"), limit)


@pytest.fixture
def guest():
    store = Store(Engine())
    exports = Instance(store, Module(store.engine, baked()), []).exports(store)
    return lambda name, *arguments: exports[name](store, *arguments)


def test_memory_starts_as_initialisation_leaves_it(guest):
    assert [guest("get", at) for at in (16, 17, 18, 5000, 5001, 131072, 131076, 131077)] == [0, 119, 110, 9, 0, 3, 3, 0]


def test_globals_too(guest):
    assert (guest("n"), guest("wide"), guest("d")) == (-199, 2**63 - 1, 1e300)
    assert guest("f") == np.float32(-0.1)


def test_segments_that_code_names_are_still_there(guest):
    guest("copy")
    assert bytes(guest("get", at) for at in range(5)) == b"later"


def test_only_the_initialisation_is_gone():
    surface = read_surface(baked())
    assert set(surface.exports) == {"memory", "get", "n", "wide", "f", "d", "copy"}


def test_the_same_module_becomes_the_same_bytes_and_zeros_take_no_room():
    assert baked() == baked()
    assert len(baked()) < 1000


def test_memory_in_many_small_pieces_becomes_few_segments():
    step = """(drop (memory.grow (i32.const 40)))
      (loop $next (i32.store8 (local.tee $i (i32.add (local.get $i) (i32.const 100))) (i32.const 1))
        (br_if $next (i32.lt_u (local.get $i) (i32.const 2600000))))"""
    wasm = baked(step, limit=64)
    (data,) = (section for section in read_sections(wasm) if section.id == Id.DATA)
    assert data.items().count < 10
    Module(Engine(), wasm)


def test_more_than_a_module_may_have_is_refused(monkeypatch):
    monkeypatch.setattr(preinit, "MAX_BYTES", 100_000)
    with pytest.raises(BuildError, match="leaves 0 MiB in memory"):
        baked("(drop (memory.grow (i32.const 2))) (memory.fill (i32.const 0) (i32.const 7) (i32.const 131072))")


def test_a_module_without_initialisation_stays_as_it_is():
    wasm = bytes(wat2wasm('(module (memory (export "memory") 1))'))
    assert preinitialise(wasm, pytest.fail, 16) is wasm


@pytest.mark.parametrize(("most", "limit", "pages"), [("", 16, 4), ("", 3, 3), ("3", 16, 3), ("9", 16, 4)])
def test_a_call_has_the_room_that_it_had(most, limit, pages):
    """Three pages are in use, and one was free before: growing is what an instance should not have to do."""
    store, body = Store(Engine()), FILL + "(i32.store8 (i32.const 190000) (i32.const 1))"
    memory = Instance(store, Module(store.engine, baked(body, most, limit)), []).exports(store)["memory"]
    assert memory.size(store) == pages


def test_a_global_that_holds_no_number_is_refused():
    wasm = bytes(
        wat2wasm(
            WAT.format(body="", most="").replace("(table 2", "(global (mut v128) (v128.const i64x2 0 0)) (table 2")
        )
    )
    with pytest.raises(BuildError, match="global 0"):
        preinitialise(wasm, pytest.fail, 16)


TABLE = """#include <sandseal.h>
static double *squares;
static int calls;
__attribute__((export_name("_initialize"))) void initialize(void) {
    squares = sandseal_need(8 * 100000);
    for (int i = 0; i < 100000; i++) squares[i] = (double)i * i;
    FIRST
}
SANDSEAL_STAGE(stage) {
    float *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){1});
    y[0] = (float)squares[300] + ++calls;
    return SANDSEAL_DONE;
}
"""


def test_a_built_plugin_starts_with_its_tables(make_plugin, call):
    built = build_plugin(make_plugin("c", TABLE.replace("FIRST", "")))
    assert "_initialize" not in read_surface(built.wasm.read_bytes()).exports
    for _ in range(2):  # each in an instance of its own
        assert call(built, np.zeros(1, np.float32))[0] == [90001]


def test_initialisation_that_asks_the_host_does_not_build(make_plugin):
    source = TABLE.replace("FIRST", "calls = (int)sandseal_now();")
    with pytest.raises(BuildError, match=r"calls sandseal\.now") as caught:
        build_plugin(make_plugin("c", source, rest='imports = ["now"]'))
    assert "into the stage" in caught.value.hint


VOCABULARY = """import numpy as np

VOCABULARY = {"w%05d" % (7919 * i % 100003): i for i in range(30000)}


def stage(text):
    ids = np.empty(len(text), np.int64)
    for i in range(len(text)):
        ids[i] = VOCABULARY[text[i]] if text[i] in VOCABULARY else -1
    return ids
"""


@pytest.mark.slow
def test_a_vocabulary_costs_an_instance_next_to_nothing(make_plugin, call, engine):
    built = build_plugin(make_plugin("python", VOCABULARY, [("text", "BYTES", ["n"])], [("ids", "INT64", ["n"])]))
    assert call(built, [b"w00000", b"w07919", b"none"])[0].tolist() == [0, 1, -1]
    medians = []
    for wasm in (built.wasm, built.unstripped):
        with engine.compile(wasm.read_bytes(), built.spec.stage) as plugin:
            medians.append(median(timed(plugin) for _ in range(20)))
    baked, initialising = medians
    assert baked < initialising / 10  # a hundredth, on a quiet machine


def timed(plugin):
    began = time.perf_counter()
    with plugin.instance():
        return time.perf_counter() - began
