"""Trying a bundle out in a confined child process, so that what crashes or hangs there is never noticed here."""
