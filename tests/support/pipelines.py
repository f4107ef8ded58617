"""Pipelines of tiny models x -> y = x + VERSION, FP32 [batch, 2], and of a plugin that gives what it takes."""

from typing import Any

from sandbox.guests import guest

ECHO = guest()
_ROWS = {"dtype": "FP32", "shape": ["batch", 2]}


def echo(name: str, source: str) -> dict[str, Any]:
    """A step that runs the plugin."""
    taken, given = {"name": "x", **_ROWS, "from": source}, {"name": "y", **_ROWS}
    return {"name": name, "plugin": "plugins/echo.wasm", "function": "run", "inputs": [taken], "outputs": [given]}


def member(name: str, source: str, model: str, **more: Any) -> dict[str, Any]:
    """A step that asks a model."""
    taken, given = {"name": "x", **_ROWS, "from": source}, {"name": "y", **_ROWS}
    return {"name": name, "model": model, "inputs": [taken], "outputs": [given], **more}


def chain(*steps: dict[str, Any]) -> dict[str, Any]:
    """A pipeline of these, from its input x to its output y, which the last of them gives."""
    outputs = [{"name": "y", **_ROWS, "from": f"{steps[-1]['name']}.y"}]
    return {"inputs": [{"name": "x", **_ROWS}], "steps": list(steps), "outputs": outputs}
