"""Tries settings on recorded arrivals, and says which to take."""
