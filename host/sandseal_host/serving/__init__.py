"""Requests, batches, lanes and live models; knows no vendor library."""
