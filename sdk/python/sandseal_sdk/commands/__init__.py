"""The commands, one module per kind of user; connection.py is how they reach a host."""
