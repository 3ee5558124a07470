"""A server of the Model Context Protocol, written with its SDK and run as a program of its own.

`python mcp_server.py` speaks over its standard input and output, `python mcp_server.py PORT` over HTTP on loopback. The
variable LOG names a file to which it writes what happens to it.
"""

import os
import sys
from base64 import b64encode
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

PIXEL = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"
server = MCPServer("library", instructions="Ask for a title first.")


def log(line: str) -> None:
    if name := os.environ.get("LOG"):
        with Path(name).open("a") as file:
            file.write(f"{line}\n")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def search(query: str, limit: int = 10) -> str:
    """Search the catalog."""
    log(f"search {query} {limit}")
    return f"{query}: Emma"


@server.tool()
async def wait(seconds: float, ctx: Context) -> str:
    """Wait, and report how far it is."""
    log("wait begins")
    try:
        await ctx.report_progress(1, 2, "half")
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        log("wait cancelled")
        raise
    return "waited"


@server.tool()
def refuse() -> str:
    """Fail."""
    raise ToolError("the library is closed")


@server.tool()
def environment() -> list[str]:
    """List the names of the variables."""
    return sorted(os.environ)


@server.tool(name="shelf.list", structured_output=True)
def shelf() -> dict[str, int]:
    """Count the books."""
    return {"Emma": 2}


@server.tool()
def media() -> CallToolResult:
    """Show everything."""
    data = b64encode(PIXEL).decode()
    text = TextResourceContents(uri="file:///notes.txt", text="a note", mime_type="text/plain")
    return CallToolResult(
        content=[
            TextContent(type="text", text="a title"),
            ImageContent(type="image", data=data, mime_type="image/png"),
            AudioContent(type="audio", data=b64encode(b"RIFF\0\0\0\0WAVE").decode(), mime_type="audio/wav"),
            EmbeddedResource(type="resource", resource=text),
            EmbeddedResource(
                type="resource",
                resource=BlobResourceContents(uri="file:///a/plan.pdf", blob=b64encode(b"%PDF-1").decode(),
                                              mime_type="application/pdf"),
            ),
            EmbeddedResource(
                type="resource",
                resource=BlobResourceContents(uri="file:///b.zip", blob="UEs=", mime_type="application/zip"),
            ),
            ResourceLink(type="resource_link", name="cover", uri="https://example.com/cover", mime_type="image/png"),
        ]
    )  # fmt: skip


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer one more tool."""
    server.add_tool(refuse, name="grown", description="A new one.")
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
def die() -> str:
    """End the whole server."""
    log("die")
    os._exit(3)


if __name__ == "__main__":
    log("start")
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]), json_response=False)
    else:
        server.run()
