"""From a plugin's source to wasm: one module per language, over one compiler.

c           C, as it stands
python      NumPy-Python: translated by Pythran, with generated glue
glue        that glue: the C++ between the ABI and the translated function
plugin_source   what is wrong with a plugin.py before anything translates it
pythran_job     Pythran in a process of its own
compiler    clang, libc and libc++ from the package `ziglang`
diagnostics     what compilers say, with the author's file and line
"""
