"""MCP: the tools of servers that speak the Model Context Protocol.

Code outside this package imports from here. The SDK, `mcp`, is imported when a client connects.
"""

from .client import MCPClient

__all__ = ["MCPClient"]
