"""Sessions on devices; the only room that knows ONNX Runtime and torch."""

import os

# The stock wheel reports usage to its vendor when it is imported (onnxruntime#27379): a model host does not.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
