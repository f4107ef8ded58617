"""The Open Inference Protocol over gRPC, on a port of its own: the same models, tokens, classes and errors as REST."""
