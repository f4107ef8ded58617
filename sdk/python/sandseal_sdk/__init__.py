"""Build, test, seal, push and call: what publishers, plugin authors and clients use."""
