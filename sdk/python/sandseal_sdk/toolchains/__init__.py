"""From a plugin's source to wasm: one module per language.

languages            the table of them: what compiles each, and what decides its bytes
c                    C and C++, as they stand
zig                  Zig, as it stands
assemblyscript       AssemblyScript, by its own compiler
node                 Node.js and npm packages for that
rust                 Rust, by the machine's rustc
python               NumPy-Python: translated by Pythran, with generated glue
glue                 that glue: the C++ between the ABI and the translated function
signature            what the stage's function takes: tensors, assets, settings
plugin_module        its modules imported, so that their top level runs
program              what the function reaches in them, as one module
rewriter             each function of it, with its module's names resolved
plugin_source        what is wrong with a function before anything translates it
formatting           f-strings in words that translate
tables, table_files  containers of the modules, as data of the built one
pythran_job          all of these and Pythran, in a process of their own
wide_int             a Python int in 64 bits, and repairs of Pythran's headers
compiler             running any of them; clang, libc and libc++ are in the package `ziglang`
diagnostics          what compilers say, with the author's file and line
editor               what an editor needs to see C and C++ as the build does
"""
