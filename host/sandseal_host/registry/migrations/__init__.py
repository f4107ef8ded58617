"""How the catalog's tables came to be, step by step; Alembic runs what a catalog still lacks when it is opened."""
