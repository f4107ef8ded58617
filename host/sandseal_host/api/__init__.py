"""The edge: control plane (FastAPI), data plane (lean ASGI), codecs, the problem table."""
