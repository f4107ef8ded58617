"""Alembic's entry: runs migrations in the transaction of the connection that `Database` hands over."""

from alembic import context

from sandseal_host.registry.tables import Row

context.configure(connection=context.config.attributes["connection"], target_metadata=Row.metadata)
with context.begin_transaction():
    context.run_migrations()
