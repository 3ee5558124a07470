"""Files as tools."""
