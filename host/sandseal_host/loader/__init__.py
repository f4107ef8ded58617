"""From a verified bundle to a model that can serve: the only room where registry, sandbox, runtime and serving meet.

loader      Loader: vets and loads bundles
assembly    Assembly: one bundle's sessions and stages, as they are built
tools       Tools: what every bundle of a host is built with
built       BuiltModel, BuiltDecoder, BuiltPipeline: what an assembly makes
"""

from sandseal_host.loader.loader import Loader

__all__ = ["Loader"]
