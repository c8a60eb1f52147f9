"""What is written down, and what must be written together?

SQLite behind SQLAlchemy Core: one writer, whole transaction functions, and an immutable `Book` renewed after each
commit. The evidence of a change is stored in the same transaction as the change. Nothing above this layer writes SQL.
"""
