"""Talking to a host; client.py beside this is the way in.

contexts     which host, with which token
connection   how requests get there: pool for threads, loop_stream for an event loop
seal_index   where the parts of a .seal file lie
transfer     a large bundle, file by file
log_client   its transparency log over REST
audit        what an auditor makes of that log
"""
