from sandseal_sdk.toolchains.wide_int import widen_ints

CPP = """# 1 "/x/pythonic/types/str.hpp"
long a = 1L; unsigned long b = 2UL; long long c = 3LL; long double d = long(4); unsigned long long e; long int f;
# 7 "/zig/libcxx/include/string" 3
long g = 1L;
# 9 "plugin.py"
long h = 0x10L;
"""


def test_long_has_64_bits_in_pythrans_and_generated_code_only():
    lines = widen_ints(CPP).splitlines()
    assert lines[0] == "using sandseal_long = long long;"
    assert lines[2] == (
        "sandseal_long a = 1LL; unsigned long long b = 2ULL; long c = 3L; long double d = sandseal_long(4); "
        "unsigned long e; sandseal_long f;"
    )
    assert lines[4] == "long g = 1L;"
    assert lines[6] == "sandseal_long h = 0x10LL;"
