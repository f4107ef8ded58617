"""Metrics and logs: rooms offer `statistics()`, this room reads them."""
