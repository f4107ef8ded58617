"""The figures of *Sandbox and SDK*."""

from bench import sandbox_calls, sandbox_plugins, sandbox_vocabulary, sandbox_workers

MEASURES = (*sandbox_calls.MEASURES, *sandbox_workers.MEASURES, *sandbox_vocabulary.MEASURES, *sandbox_plugins.MEASURES)
