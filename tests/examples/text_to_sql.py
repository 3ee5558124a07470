"""Text to SQL: questions about a database that can only be read, answered by queries that the agent writes and mends.

python text_to_sql.py shop.db "Which artists sell best?"
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from minideep import create_deep_agent, tool

MEMORY = """You answer questions about an SQLite database that you can only read. Look at its tables and their columns
before you write a query; name the columns that you need, and ask for 5 rows unless the user wants more. If a query
fails, read the error, look at the schema again, and write a better one. Give the answer first and the query after it."""
SKILL = """---
name: several-tables
description: how to write a query that joins tables or adds rows up
---
Write as todos: which tables, which keys join them, what is added up. Every column that is not added up stands in GROUP
BY. Check with a count that a join has not multiplied rows."""


def sql_agent(model, database, **options):
    """Make the agent for the file *database*."""

    def ask(sql, *values):
        with closing(sqlite3.connect(f"{Path(database).resolve().as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute(sql, values).fetchmany(200)

    @tool
    def list_tables() -> list[str]:
        """List the tables of the database."""
        return [name for (name,) in ask("SELECT name FROM sqlite_master WHERE type = 'table'")]

    @tool
    def schema(tables: list[str]) -> str:
        """Show the columns of tables, and three rows of each."""
        known = [(name, sql) for name, sql in ask("SELECT name, sql FROM sqlite_master") if name in tables]
        return "\n".join(f"{sql}\n{ask(f'SELECT * FROM [{name}] LIMIT 3')}" for name, sql in known)

    @tool(timeout=60)
    def query(sql: str) -> list[list[str | float | None]]:
        """Run one SELECT, and return its first 200 rows."""
        return [list(row) for row in ask(sql)]

    return create_deep_agent(model, [list_tables, schema, query], memory=["AGENTS.md"], skills=["skills"], **options)


if __name__ == "__main__":
    files = {"AGENTS.md": MEMORY, "skills/several-tables/SKILL.md": SKILL}
    print(sql_agent("anthropic:claude-sonnet-4-6", sys.argv[1]).run_sync(sys.argv[2], files=files).text)
