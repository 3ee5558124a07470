"""The programs in `examples/`, run as they stand: real pages on loopback, a real database, real folders.

Only the models are scripted, and they know nothing: what they write is taken from what tools have told them.
"""

import json
import re
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest
from examples.content_builder import content_agent, show
from examples.deep_research import research_agent
from examples.text_to_sql import MEMORY, SKILL, sql_agent
from harness.agents import answers, task
from harness.lines import code_lines

from minideep import DiskCheckpointer, ToolCall, tool
from minideep.models import ScriptedModel

EXAMPLES = Path(__file__).parents[1] / "examples"
THEIRS = {"deep_research": 82, "text_to_sql": 79, "content_builder": 167}
"""Code lines of the programs that deepagents has of the same names, without their prompts and skills, which ours hold:
`agent.py` and `tools.py`; `agent.py`, without the library that its tools are from; `content_writer.py` (2026-11-22).
"""
PAGES = {
    "phobos": ("Phobos", "<h1>Phobos</h1><script>alert(1)</script><p>Phobos is 22 km wide.</p>"),
    "deimos": ("Deimos", "<h1>Deimos</h1><p>Deimos is 12 km wide.</p>"),
}


@pytest.mark.parametrize("name", THEIRS)
def test_an_example_has_at_most_half_of_the_lines(name):
    assert code_lines(EXAMPLES / f"{name}.py") <= THEIRS[name] / 2


# ---- deep research


class Web(BaseHTTPRequestHandler):
    """A search engine and the pages that it finds."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path.startswith("/search?q="):
            words, home = unquote(self.path).lower(), f"http://{self.headers['host']}"
            hits = [{"title": title, "url": f"{home}/{name}"} for name, (title, _) in PAGES.items() if name in words]
            body = json.dumps(hits)
        else:
            body = PAGES[self.path[1:]][1]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass


@pytest.fixture
def web():
    with ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def researching(request):
    """A lead who delegates two moons and writes down what it is told, and a researcher who says what it has found."""
    last = request.messages[-1]
    if "a researcher" not in request.system:
        moon = request.messages[0].text.split()[-1]
        if last.role == "user":
            return ToolCall("search", {"query": f"{moon} size"})
        title, url, width = re.search(r"## (\w+)\n(\S+)\n.*?(\w+ is \d+ km wide)", last.text, re.DOTALL).groups()
        return f"{width} ({title}, {url})."
    if last.role == "user":
        return [task("researcher", moon, f"How wide is {moon}") for moon in ("Phobos", "Deimos")]
    if last.name == "task":
        found = [re.match(r"(.*) \((\w+), (\S+)\)", message.text).groups() for message in request.messages[-2:]]
        claims = " ".join(f"{claim} [{number}]." for number, (claim, *_) in enumerate(found, 1))
        sources = "\n".join(f"[{number}] {title}: {url}" for number, (_, title, url) in enumerate(found, 1))
        return ToolCall("write_file", {"file_path": "/report.md", "content": f"{claims}\n\n## Sources\n{sources}\n"})
    return "The report is in /report.md."


def test_researchers_search_side_by_side_and_the_report_cites_what_they_have_read(web, tmp_path):
    home = f"http://127.0.0.1:{web.server_port}"
    with DiskCheckpointer(tmp_path / "state") as store:
        agent = research_agent(ScriptedModel(researching), f"{home}/search?q=", checkpointer=store)
        turn = agent.run_sync("How wide are the moons of Mars?", "moons")
        assert turn.artifacts["/report.md"].content == (
            f"Phobos is 22 km wide [1]. Deimos is 12 km wide [2].\n\n"
            f"## Sources\n[1] Phobos: {home}/phobos\n[2] Deimos: {home}/deimos\n"
        )
        assert sorted(web.asked) == ["/deimos", "/phobos", "/search?q=Deimos%20size", "/search?q=Phobos%20size"]
        assert [run.agent for run in agent.runs("moons")] == ["researcher", "researcher"]
        assert "alert" not in agent.transcript("moons", "Phobos")[2].text


def test_no_more_than_three_researchers_begin_at_once(web):
    script = [[task("researcher", str(number), "x") for number in range(5)], *["nothing"] * 3, "done"]
    agent = research_agent(ScriptedModel(script), f"http://127.0.0.1:{web.server_port}/search?q=")
    assert len([text for text in answers(agent.run_sync("go")) if text == "nothing"]) == 3


# ---- text to SQL


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE artist (id INTEGER, name TEXT)")
        connection.execute("CREATE TABLE sale (artist INTEGER, euros REAL)")
        connection.executemany("INSERT INTO artist VALUES (?, ?)", [(1, "Bach"), (2, "Abba")])
        connection.executemany("INSERT INTO sale VALUES (?, ?)", [(1, 5.0), (2, 9.5), (2, 9.5)])
    connection.close()
    return path


JOINED = (
    "SELECT name, SUM(euros) FROM artist JOIN sale ON artist.id = sale.artist GROUP BY name ORDER BY 2 DESC LIMIT 1"
)
FILES = {"AGENTS.md": MEMORY, "skills/several-tables/SKILL.md": SKILL}


def test_a_wrong_query_is_corrected_by_what_the_database_says(shop):
    def answer(request):
        name, euros = json.loads(request.messages[-1].text)[0]
        return f"{name} sells best, with {euros} euros."

    script = iter([
        ToolCall("read_file", {"file_path": "/skills/several-tables/SKILL.md"}),
        ToolCall("list_tables"),
        ToolCall("schema", {"tables": ["artist", "sale"]}),
        ToolCall("query", {"sql": JOINED.replace("name", "artist_name")}),
        ToolCall("query", {"sql": JOINED}),
    ])  # fmt: skip
    model = ScriptedModel(lambda request: next(script, None) or answer(request))
    turn = sql_agent(model, shop).run_sync("Who sells best?", files=FILES)
    skill, tables, columns, wrong, right = answers(turn)
    assert "a join has not multiplied rows" in skill
    assert tables == '["artist","sale"]'
    assert "CREATE TABLE sale (artist INTEGER, euros REAL)\n[(1, 5.0), (2, 9.5), (2, 9.5)]" in columns
    assert "no such column: artist_name" in wrong
    assert (right, turn.text) == ('[["Abba",19.0]]', "Abba sells best, with 19.0 euros.")
    assert "that you can only read" in model.requests[0].system  # The memory file.
    assert "several-tables" in model.requests[0].system


def test_the_database_of_an_sql_agent_cannot_be_written(shop):
    deed = ToolCall("query", {"sql": "DELETE FROM sale"})
    turn = sql_agent(ScriptedModel([deed, "I cannot."]), shop).run_sync("Delete all sales.", files=FILES)
    assert "attempt to write a readonly database" in answers(turn)[0]
    connection = sqlite3.connect(shop)
    assert connection.execute("SELECT COUNT(*) FROM sale").fetchone() == (3,)
    connection.close()


# ---- a content builder


SUBAGENTS = """
researcher:
  description: finds facts on the web
  system_prompt: You are the researcher. Save what you find to the path that you are given.
  tools: [web_search]
editor:
  description: edits a draft
  system_prompt: You are the editor. Cut words.
"""
POST = "---\nname: blog-post\ndescription: how a post is made\n---\nResearch, write, have it edited, draw a cover."


@pytest.fixture
def brand(tmp_path):
    for name, text in {
        "AGENTS.md": "We never shout.",
        "subagents.yaml": SUBAGENTS,
        "skills/blog-post/SKILL.md": POST,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@tool
def web_search(query: str) -> str:
    """Search the web."""
    return f"{query}: the tide turns every 6 hours"


def writing(steps):
    """A model whose parts follow their own scripts: the agent itself, the researcher and the editor."""

    def next_step(request):
        part = re.search(r"You are the (\w+)\.", request.system)
        step = next(steps[part[1] if part else "agent"])
        return step(request) if callable(step) else step

    return ScriptedModel(next_step)


def file(name, path, **more):
    return ToolCall(name, {"file_path": path, **more})


async def test_a_post_is_researched_written_edited_and_has_a_cover(brand, capsys):
    draft = "# Tides & power\n\nThe tide very really turns every 6 hours.\n"
    steps = {
        "agent": iter([
            file("read_file", "/skills/blog-post/SKILL.md"),
            task("researcher", "r", "Tides; save to /research/tides.md"),
            file("read_file", "/research/tides.md"),
            [file("write_file", "/posts/tides/post.md", content=draft),
             ToolCall("draw_cover", {"title": "Tides & power", "slug": "tides", "colour": '"/><script>'})],
            task("editor", "e", "Edit /posts/tides/post.md"),
            "The post is in posts/tides.",
        ]),
        "researcher": iter([
            ToolCall("web_search", {"query": "tides"}),
            lambda request: file("write_file", "/research/tides.md", content=request.messages[-1].text),
            "saved",
        ]),
        "editor": iter([
            file("read_file", "/posts/tides/post.md"),
            file("edit_file", "/posts/tides/post.md", old_string="very really ", new_string=""),
            "shorter by two words",
        ]),
    }  # fmt: skip
    model = writing(steps)
    turn = await show(content_agent(model, brand, [web_search]), "Write about tides.")
    assert (brand / "research/tides.md").read_text() == "tides: the tide turns every 6 hours"
    assert (brand / "posts/tides/post.md").read_text() == draft.replace("very really ", "")
    cover = (brand / "posts/tides/cover.svg").read_text()
    assert "Tides &amp; power" in cover
    assert "<script>" not in cover
    assert "We never shout." in model.requests[0].system
    printed = capsys.readouterr().out
    assert 'r → web_search {"query":"tides"}' in printed
    assert printed.endswith(f"agent: {turn.text}\n")


async def test_a_cover_is_drawn_in_the_folder_only(brand, capsys):
    model = ScriptedModel([ToolCall("draw_cover", {"title": "x", "slug": "../../evil"}), "It was refused."])
    turn = await show(content_agent(model, brand, [web_search]), "Draw.")
    assert "slug" in answers(turn)[0]
    assert not (brand.parent / "evil").exists()
    assert "agent ✗ draw_cover" in capsys.readouterr().out
