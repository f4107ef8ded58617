"""What sdk/debugging.md advises works."""

import subprocess
import sys

import pytest

from sandseal_sdk import harness
from sandseal_sdk.build import build_plugin

KERNEL = """
static inline void standardise(const float *x, float *y, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    for (int i = 0; i < n; i++) y[i] = x[i] - sum / (float)n;
}
"""
PLUGIN = """
#include "kernel.h"
#include <sandseal.h>
SANDSEAL_STAGE(stage) {
    const struct sandseal_tensor *x = sandseal_input(call, 0);
    standardise(sandseal_data(x), sandseal_make(sandseal_output(call, 0), x->shape), (int)x->shape[0]);
    return SANDSEAL_DONE;
}
"""
NATIVE = r"""
#include "kernel.h"
#include <stdio.h>

int main(void) {
    float x[] = {1, 2, 3}, y[3];
    standardise(x, y, 3);
    for (int i = 0; i < 3; i++) printf("%g\n", y[i]);
}
"""


@pytest.mark.slow
def test_a_kernel_of_its_own_runs_natively_and_in_the_sandbox(make_plugin):
    folder = make_plugin("c", PLUGIN)
    (folder / "kernel.h").write_text(KERNEL)
    (folder / "native.c").write_text(NATIVE)
    command = [sys.executable, "-m", "ziglang", "cc", "-g", "-fsanitize=undefined", "native.c", "-o", "native"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no native programs can be linked here: {made.stderr[-300:]}")
    native = subprocess.run([folder / "native"], capture_output=True, text=True, check=True).stdout
    with harness.load_plugin(folder) as plugin:
        assert plugin.call({"x": [1, 2, 3]}).outputs["y"].tolist() == [float(line) for line in native.split()]


CONFIGURED = """#include <sandseal.h>
SANDSEAL_STAGE(stage) {
    float *y = sandseal_make(sandseal_output(call, 0), (int64_t[]){1});
    y[0] = (float)sandseal_config(call, "scale", 1);
    return SANDSEAL_DONE;
}
"""


def test_config_changes_the_answer_and_not_the_module(make_plugin):
    modules = []
    for scale in (2, 3):
        folder = make_plugin("c", CONFIGURED, rest=f"config = {{ scale = {scale} }}", name=f"scaled{scale}")
        modules.append(build_plugin(folder).wasm.read_bytes())
        with harness.load_plugin(folder) as plugin:
            assert plugin.call({"x": [0]}).outputs["y"].tolist() == [scale]
    assert modules[0] == modules[1]
