"""Sign and verify sealed bundles: takes bytes, uses only the standard library and `cryptography`."""
