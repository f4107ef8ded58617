"""sandseal.h, used as a C author uses it; the guest says what it sees."""

import json
import subprocess
import sys

import numpy as np
import pytest

from sandseal_host.errors import InputRefused, PluginOutOfMemory, PluginTrapped
from sandseal_sdk.build import build_plugin
from sandseal_sdk.toolchains.compiler import header_folder

TEXTS = [("text", "BYTES", ["n"])]


def built(make_plugin, body, **members):
    return build_plugin(make_plugin("c", f"#include <sandseal.h>\n{body}", **members))


def test_numbers_in_numbers_out(make_plugin, call):
    plugin = built(
        make_plugin,
        """
        SANDSEAL_STAGE(stage) {
            const struct sandseal_tensor *x = sandseal_input(call, 0);
            const float *from = sandseal_data(x);
            if (sandseal_count(x) != (uint64_t)x->shape[0] || sandseal_size_of(x->dtype) != 4) return 7;
            float *to = sandseal_make(sandseal_output(call, 0), x->shape);
            SANDSEAL_UNROLL
            for (int64_t i = 0; i < x->shape[0]; i++) to[i] = from[i] / 4;
            return SANDSEAL_DONE;
        }""",
    )
    x = np.arange(100_000, dtype=np.float32)
    assert np.array_equal(call(plugin, x)[0], x / 4)
    assert call(plugin, x[:0])[0].shape == (0,)


def test_an_output_may_be_the_input(make_plugin, call):
    plugin = built(
        make_plugin,
        """SANDSEAL_STAGE(stage) {
            const struct sandseal_tensor *x = sandseal_input(call, 0);
            sandseal_give(sandseal_output(call, 0), x->shape, sandseal_data(x), x->byte_len);
            return SANDSEAL_DONE;
        }""",
    )
    x = np.arange(5, dtype=np.float32)
    assert np.array_equal(call(plugin, x)[0], x)


def test_bytes_elements_are_read_and_written(make_plugin, call):
    plugin = built(
        make_plugin,
        """
        SANDSEAL_STAGE(stage) {
            struct sandseal_reader reader = sandseal_read(sandseal_input(call, 0));
            struct sandseal_writer writer = {0};
            int64_t count = 1;
            for (struct sandseal_text text; sandseal_next(&reader, &text); count++) {
                char *to = sandseal_element(&writer, text.size);
                for (uint32_t i = 0; i < text.size; i++) to[i] = text.data[text.size - 1 - i];
            }
            sandseal_append(&writer, sandseal_say("end"));
            sandseal_finish(&writer, sandseal_output(call, 0), &count);
            return SANDSEAL_DONE;
        }""",
        inputs=TEXTS,
        outputs=[("out", "BYTES", ["m"])],
    )
    texts = [b"abc", b"", b"\0\xff", bytes(range(256)) * 500]
    assert call(plugin, texts) == [[text[::-1] for text in texts] + [b"end"]]
    assert call(plugin, []) == [[b"end"]]


def test_a_refusal_carries_its_text(make_plugin, call):
    plugin = built(make_plugin, 'SANDSEAL_STAGE(stage) { return sandseal_refuse(call, "not like this"); }')
    with pytest.raises(InputRefused, match=r"^not like this$"):
        call(plugin, np.zeros(1, np.float32))


NUMBERS = {
    "three": 3,
    "minus": -2.5,
    "large": 9007199254740991,
    "small": 1.5e-7,
    "exponent": 2.5e20,
    "nested": {"three": 7, "list": [1, 2]},
    "text": "three",
    "after": 1,
    'quo"ted': 4,
}


@pytest.mark.parametrize("style", [{}, {"indent": 2}, {"separators": (",", ":")}], ids=["plain", "indented", "tight"])
def test_parameters_are_read_without_a_json_library(number_reader, call, style):
    wanted = {name: value if isinstance(value, (int, float)) else -1 for name, value in NUMBERS.items()}
    wanted |= {"list": -1, "absent": -1, 'quo"ted': -1}  # one is nested, one is not there, one is written with a \\
    names = [name.encode() + b"\0" for name in wanted]
    (found,) = call(number_reader, names, params=json.dumps(NUMBERS, **style).encode())
    assert found.tolist() == pytest.approx(list(wanted.values()), rel=1e-15)


@pytest.fixture
def number_reader(make_plugin):
    """Takes names, terminated, and answers with the parameters of these names."""
    return built(
        make_plugin,
        """SANDSEAL_STAGE(stage) {
            const struct sandseal_tensor *names = sandseal_input(call, 0);
            struct sandseal_reader reader = sandseal_read(names);
            double *y = sandseal_make(sandseal_output(call, 0), names->shape);
            for (struct sandseal_text name; sandseal_next(&reader, &name);) *y++ = sandseal_param(call, name.data, -1);
            return SANDSEAL_DONE;
        }""",
        inputs=TEXTS,
        outputs=[("y", "FP64", ["n"])],
    )


def test_config_and_asset(make_plugin, call):
    plugin = built(
        make_plugin,
        """
        SANDSEAL_STAGE(stage) {
            struct sandseal_text asset = sandseal_asset("data/table.bin");
            if (!asset.data || sandseal_asset("data/other.bin").data) return sandseal_refuse(call, "asset");
            float *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){2});
            y[0] = (float)sandseal_config(call, "scale", 1);
            y[1] = (float)asset.size + asset.data[1];
            return SANDSEAL_DONE;
        }""",
        rest='imports = ["asset"]\nassets = ["data/table.bin"]\nconfig = { scale = 0.25 }',
    )
    (y,) = call(plugin, np.zeros(1, np.float32), assets={"data/table.bin": b"abc"})
    assert y.tolist() == [0.25, 3 + ord("b")]


def test_too_much_memory_traps_with_a_name_to_it(make_plugin, call):
    plugin = built(
        make_plugin,
        """SANDSEAL_STAGE(stage) {
            float *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){1 << 24});
            y[0] = 1;
            return SANDSEAL_DONE;
        }""",
        rest="limits = { memory_mib = 16 }",
    )
    with pytest.raises((PluginTrapped, PluginOutOfMemory), match="sandseal_out_of_memory"):
        call(plugin, np.zeros(1, np.float32))


def test_reset_gives_the_memory_back(make_plugin, engine, call):
    plugin = built(
        make_plugin,
        """SANDSEAL_STAGE(stage) {
            const struct sandseal_tensor *x = sandseal_input(call, 0);
            float *y = sandseal_make(sandseal_output(call, 0), x->shape);
            y[0] = (float)__builtin_wasm_memory_size(0);
            return SANDSEAL_DONE;
        }""",
        rest="limits = { memory_mib = 8 }",
    )
    from sandseal_host.tensors import Tensor

    x = np.zeros(200_000, np.float32)
    tensor = Tensor("x", plugin.spec.inputs[0].dtype, x.shape, x)
    with engine.compile(plugin.wasm.read_bytes(), plugin.spec.stage) as compiled, compiled.instance() as instance:
        pages = {float(instance.call((tensor,))[0].data[0]) for _ in range(50)}
    assert len(pages) == 1


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_header_compiles_without_a_warning(tmp_path, language):
    source = tmp_path / ("all.c" if language == "c" else "all.cpp")
    source.write_text("#include <sandseal.h>\nSANDSEAL_STAGE(stage) { return (int32_t)call->flags; }\n")
    command = [sys.executable, "-m", "ziglang", "cc" if language == "c" else "c++", "-target", "wasm32-freestanding"]
    command += [
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Werror",
        "-std=c17" if language == "c" else "-std=c++17",
    ]
    command += ["-I", str(header_folder()), "-c", str(source), "-o", str(tmp_path / "all.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
