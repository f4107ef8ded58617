"""The commands, one module per kind of user."""
