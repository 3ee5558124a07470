"""Claude, behind Anthropic's SDK."""
