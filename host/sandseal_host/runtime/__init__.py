"""Sessions on devices; the only room that knows ONNX Runtime and torch."""
