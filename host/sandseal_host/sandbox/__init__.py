"""Plugins in wasmtime; the only room that knows it."""
