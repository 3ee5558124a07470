"""Permissions while another process swaps a folder for a link to what they forbid, all the time."""

import subprocess
import sys
from random import Random

import pytest
from harness.forbidden import Forbidden
from harness.swapping import SWAP

from minideep import ToolCall, create_deep_agent
from minideep.backends import FilesystemBackend
from minideep.models import ScriptedModel
from minideep.permissions import Deny

CALLS, AT_ONCE = 1_000, 25


def calls_in(folder, number):
    file = f"{folder}/file"
    return {
        "ls": {"path": folder},
        "read_file": {"file_path": file},
        "grep": {"pattern": "e", "path": folder, "output_mode": "content"},
        "glob": {"pattern": "**", "path": folder},
        "write_file": {"file_path": f"{folder}/new{number}/n", "content": "ours"},
        "edit_file": {"file_path": file, "old_string": "e", "new_string": "ours", "replace_all": True},
        "delete": {"file_path": f"{folder}/of the vault"},
    }


@pytest.mark.skipif(sys.platform != "linux", reason="two names are exchanged at once by a call of Linux")
async def test_a_folder_that_is_swapped_for_a_link_all_the_time_never_leads_around_a_rule(tmp_path):
    for folder, content in (("door/sub", "open"), ("vault/sub", "secret")):
        (tmp_path / folder).mkdir(parents=True)
        for place in ((tmp_path / folder), (tmp_path / folder).parent):
            (place / "file").write_text(content)
    (tmp_path / "vault" / "of the vault").write_text("secret")
    (tmp_path / "link").symlink_to("vault")
    before = tree(tmp_path / "vault")
    random, replies = Random(0), CALLS // AT_ONCE

    def reply(number):
        calls = []
        for place in range(AT_ONCE):
            made = calls_in(random.choice(("/door", "/door/sub")), AT_ONCE * number + place)
            name = random.choice([*made])
            calls.append(ToolCall(name, made[name], f"c{number}-{place}"))
        return calls

    agent = create_deep_agent(
        ScriptedModel([*map(reply, range(replies)), "done"]),
        backend=FilesystemBackend(tmp_path),
        permissions=[Deny("read", "/vault"), Deny("write", "/vault")],
    )
    with subprocess.Popen([sys.executable, "-c", SWAP, tmp_path], stdout=subprocess.PIPE, text=True) as swapper:
        try:
            assert swapper.stdout.readline(), "the swapper needs Linux"
            turn = await agent.run("go")
            assert swapper.poll() is None
        finally:
            swapper.kill()
    results = [message.text for message in turn.messages if message.role == "tool"]
    assert (turn.status, len(results)) == ("ended", CALLS), turn.error
    refused = sum("forbids it" in result for result in results)
    assert not [result for result in results if "secret" in result or "of the vault" in result.partition("'")[0]]
    assert tree(tmp_path / "vault") == before
    assert 0 < refused < CALLS


@pytest.mark.parametrize("seed", range(40))
async def test_no_call_reaches_what_the_rules_forbid_by_any_name_or_link(tmp_path, seed):
    assert await Forbidden(tmp_path, seed).attack() == []


def tree(folder):
    return {str(path.relative_to(folder)): path.is_dir() or path.read_text() for path in folder.rglob("*")}
