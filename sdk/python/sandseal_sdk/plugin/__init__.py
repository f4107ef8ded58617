"""What a plugin is: the first things that everything about plugins is made of.

plugin_spec   plugin.toml
values        its tensors, as people write them
byte_text     its text, as plain Python sees it
wasm_module   its module, as sections
preinit       the module after its initialisation
sandbox       the module in the host's own sandbox; the only place that knows the host
"""
