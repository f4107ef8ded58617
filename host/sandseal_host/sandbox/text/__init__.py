"""Tokenizers and chat templates of publishers, each model's in a process of its own.

worker      TextWorker: what the host asks
process     TextProcess: one process as seen from here; child: the process itself
texts       Texts: a tokenizer and a chat template, as the process has them
templates, tokens: the template's language; what tokens are in bytes
files, frames: what passes between
"""

from sandseal_host.sandbox.text.files import TextFiles
from sandseal_host.sandbox.text.process import TextLimits
from sandseal_host.sandbox.text.worker import TextStatistics, TextWorker

__all__ = ["TextFiles", "TextWorker", "TextLimits", "TextStatistics"]
