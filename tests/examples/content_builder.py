"""A content builder that is configured by the files of a folder, and whose work is files of it: posts and pictures.

python content_builder.py brand/ "Write a post about tidal power"

AGENTS.md      the voice of the brand, which the prompt always shows
skills/        how a kind of content is made; the agent reads what it needs
subagents.yaml the subagents: their descriptions and prompts, and the names of their tools
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated
from xml.sax.saxutils import escape, quoteattr

import yaml
from msgspec import Meta

from minideep import create_deep_agent, tool
from minideep.backends import FilesystemBackend
from minideep.events import ModelReplied, ToolEnded, ToolStarted

COVER = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 630"><rect width="1200" height="630" fill={colour}/>
<text x="600" y="330" text-anchor="middle" font-size="56" fill="white">{title}</text></svg>
"""


def content_agent(model, folder, tools=(), **options):
    """Make the agent for *folder*. *tools* are those that its subagents may name, such as a search of the web."""

    @tool
    def draw_cover(title: str, slug: Annotated[str, Meta(pattern="^[a-z0-9-]+$")], colour: str = "teal") -> str:
        """Draw the cover of the post in posts/SLUG."""
        cover = Path(folder, "posts", slug, "cover.svg")
        cover.parent.mkdir(parents=True, exist_ok=True)
        cover.write_text(COVER.format(colour=quoteattr(colour), title=escape(title)))
        return f"/posts/{slug}/cover.svg is drawn"

    named = {tool.name: tool for tool in tools}
    subagents = yaml.safe_load(Path(folder, "subagents.yaml").read_text())
    for name, about in subagents.items():
        about |= {"name": name, "tools": [named[tool] for tool in about.get("tools", ())]}
    parts = {"memory": ["AGENTS.md"], "skills": ["skills"], "subagents": list(subagents.values())}
    return create_deep_agent(model, [draw_cover], backend=FilesystemBackend(folder), **parts, **options)


async def show(agent, goal):
    """Run *goal*, and print what happens."""
    async with agent.stream(goal) as stream:
        async for event in stream:
            who = "/".join(event.path) or "agent"
            if isinstance(event, ModelReplied) and event.message.text:
                print(f"{who}: {event.message.text}")
            elif isinstance(event, ToolStarted):
                print(f"{who} → {event.call.name} {event.call.raw.decode()[:60]}")
            elif isinstance(event, ToolEnded) and event.is_error:
                print(f"{who} ✗ {event.name}")
    return stream.turn


if __name__ == "__main__":
    asyncio.run(show(content_agent("anthropic:claude-sonnet-4-6", sys.argv[1]), sys.argv[2]))
