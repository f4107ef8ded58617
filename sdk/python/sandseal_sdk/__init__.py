"""Build, test, seal, push and call: what publishers, plugin authors and clients use.

build, harness, scaffold, pytest_plugin     for authors of plugins
publish, importing, first_party, packages   for publishers of models
client                                      for whoever calls a host
cli, commands, console                      the `sandseal` command over all of it

Below them, from what is used to what uses it: plugin, toolchains, build; then testing, bundles and hosts.
"""
