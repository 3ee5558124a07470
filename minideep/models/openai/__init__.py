"""OpenAI's two APIs, behind OpenAI's SDK."""
