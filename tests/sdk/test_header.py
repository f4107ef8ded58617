"""What sandseal.h does with memory and warnings; test_languages.py has the rest."""

import subprocess
import sys

import numpy as np
import pytest

from sandseal_host.errors import PluginOutOfMemory, PluginTrapped
from sandseal_sdk.build import build_plugin
from sandseal_sdk.toolchains.compiler import library_folder


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


@pytest.mark.parametrize(
    ("header", "standard"), [("sandseal.h", "c17"), ("sandseal.h", "c++17"), ("sandseal.hpp", "c++20")]
)
def test_the_header_compiles_without_a_warning(tmp_path, header, standard):
    source = tmp_path / ("all.cpp" if "++" in standard else "all.c")
    source.write_text(f"#include <{header}>\nSANDSEAL_STAGE(stage) {{ return (void)call, SANDSEAL_DONE; }}\n")
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-freestanding", "-fno-exceptions"]
    command += ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", f"-std={standard}"]
    command += [f"-I{library_folder('c')}", f"-I{library_folder('cpp')}", "-c", str(source)]
    command += ["-o", str(tmp_path / "all.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
