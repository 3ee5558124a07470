"""Deep research: the parts of a question go to researchers, and a report cites every page that it rests on.

python deep_research.py "Compare the two moons of Mars"
"""

import json
import re
import sys
from urllib.parse import quote
from urllib.request import urlopen

from minideep import Limits, Subagent, create_deep_agent, tool

LEAD = """Plan the parts of the question as todos and give each to a researcher: one, unless parts can be worked on
apart, then all of them in one reply. Never search yourself. Write the report to /report.md under headings: each claim
with the number of its source, such as [1], and under Sources one line for each number with its title and address. Read
it again before you end: it must answer the whole question, and no source may stand in it twice."""
RESEARCHER = """Search broadly first, then for what is missing, five times at most. Say after each search what you know
now and what is open. Answer with what you found, each claim with the title and the address of the page that says it."""


def research_agent(model, engine, **options):
    """Make the agent. *engine* is the address of a search engine: with a query at its end it answers with a list of
    `{"title", "url"}` as JSON.
    """

    def fetch(url):
        with urlopen(url, timeout=30) as page:
            return page.read().decode(errors="replace")

    @tool
    def search(query: str) -> str:
        """Search the web. The result is the title, the address and the text of each page that was found."""
        hits = json.loads(fetch(engine + quote(query)))
        texts = (re.sub(r"<script.*?</script>|<[^>]+>", " ", fetch(hit["url"]), flags=re.DOTALL) for hit in hits)
        return "\n\n".join(f"## {hit['title']}\n{hit['url']}\n{text}" for hit, text in zip(hits, texts, strict=True))

    about = "finds out one part of a question on the web"
    researcher = Subagent(name="researcher", description=about, system_prompt=RESEARCHER, tools=[search])
    limits = Limits(steps=100, max_children=3)
    return create_deep_agent(model, [], LEAD, subagents=[researcher], limits=limits, **options)


if __name__ == "__main__":
    turn = research_agent("anthropic:claude-sonnet-4-6", "http://127.0.0.1:8888/search?q=").run_sync(sys.argv[1])
    print(turn.artifacts["/report.md"].content)
