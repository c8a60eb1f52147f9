"""How are the scripts run? On the connection that the caller opened and whose transaction it holds."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, render_as_batch=True, transaction_per_migration=False)
context.run_migrations()
