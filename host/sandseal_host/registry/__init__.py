"""What has been accepted: blob store, catalog, tokens; the only room that knows SQLAlchemy."""
