"""One command that measures everything and writes a page of tables and pictures."""
