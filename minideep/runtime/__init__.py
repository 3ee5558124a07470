"""Running a turn."""
