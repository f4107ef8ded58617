"""Plugins in processes of their own, which all plugins of a host share.

workers     Workers: the whole, with one queue in order of urgency; stage: a plugin on them
stream      an instance for one stream
queue       what waits; dispatch: handing over, and taking answers; taking: their outputs
call        one call, and the stage that it is of
keeper      replaces what ends; process: one worker as seen from here
worker      the process itself
protocol, region, plugin: what passes between
"""
