"""What keeps the context small."""
