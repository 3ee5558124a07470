"""The contract of a file backend fails on backends that break it, each in the test that asks for what it breaks."""

import posixpath

import pytest

from minideep.backends import FileInfo, FilesystemBackend, StateBackend
from minideep.errors import ToolError
from minideep.testing import BackendContract


class KeepsTheTail(FilesystemBackend):
    """Writes over the old content."""

    def write(self, ctx, path, data, expect=None):
        file = self.folder / path[1:]
        file.touch()
        with file.open("r+b") as opened:
            opened.write(data)
        return False

    def __init__(self, folder):
        super().__init__(folder)
        self.folder = folder


class IsOfText(StateBackend):
    """Knows one encoding."""

    def read(self, ctx, path):
        return super().read(ctx, path).decode("utf-8", "replace").encode()


class ExpectsNothing(StateBackend):
    """Ignores *expect*."""

    def write(self, ctx, path, data, expect=None):
        return super().write(ctx, path, data)


class ChangesItsMind(StateBackend):
    """Says of every second write that the state need not keep it."""

    writes = 0

    def write(self, ctx, path, data, expect=None):
        self.writes += 1
        return super().write(ctx, path, data, expect) and self.writes % 2 == 1


class ListsInAnyOrder(FilesystemBackend):
    """As the disk does."""

    def ls(self, ctx, path):
        return super().ls(ctx, path)[::-1]


class HasNoSizes(StateBackend):
    """Lists names alone."""

    def ls(self, ctx, path):
        return [type(info)(info.path, info.is_dir) for info in super().ls(ctx, path)]


class WalksEverything(StateBackend):
    """Searches what nobody wants to find."""

    def walk(self, ctx, path):
        start = "" if path == "/" else path
        return iter([FileInfo(name) for name in ctx.state.files if name.startswith(start)])


class RaisesItsOwn(StateBackend):
    """Lets the errors of its language out."""

    def read(self, ctx, path):
        return bytes(ctx.content_of(path))


class SaysNothing(StateBackend):
    """Has no error of its own for what is not there."""

    def read(self, ctx, path):
        try:
            return super().read(ctx, path)
        except ToolError as exc:
            raise ToolError(str(exc)) from None


class DeletesByPrefix(StateBackend):
    """Takes `/src2` for a part of `/src`."""

    def delete(self, ctx, path):
        super().delete(ctx, path)
        return [file for file in ctx.state.files if file.startswith(path)]


class DeletesTheRoot(StateBackend):
    """Does what it is asked."""

    def delete(self, ctx, path):
        return [*ctx.state.files] if path.strip("./") == "" else super().delete(ctx, path)


class FollowsDots(StateBackend):
    """Cleans paths up."""

    def write(self, ctx, path, data, expect=None):
        return super().write(ctx, posixpath.normpath(path), data, expect)


class KnowsOneSpelling(StateBackend):
    """Compares paths as they are written."""

    def read(self, ctx, path):
        if path not in ctx.state.files:
            raise KeyError(path)
        return super().read(ctx, path)


class KeepsToAscii(StateBackend):
    """Has no room for the names of others."""

    def write(self, ctx, path, data, expect=None):
        if not path.isascii():
            raise ToolError("refused")
        return super().write(ctx, path, data, expect)


class ShadowsFolders(StateBackend):
    """Puts a file where a folder is."""

    def write(self, ctx, path, data, expect=None):
        return True


class FindsNothing(StateBackend):
    """Has files and no way to find them."""

    def walk(self, ctx, path):
        return iter(())


class IsVague(StateBackend):
    """Says neither where it is nor whether it waits."""

    home = ""


BROKEN = [
    (KeepsTheTail, "a_write_replaces_the_whole_file_and_says_each_time_whether_the_state_keeps_it"),
    (IsOfText, "a_file_is_read_byte_for_byte_as_it_was_written"),
    (ExpectsNothing, "a_write_goes_through_only_if_the_file_is_as_expected"),
    (ChangesItsMind, "a_write_replaces_the_whole_file_and_says_each_time_whether_the_state_keeps_it"),
    (ListsInAnyOrder, "a_listing_has_the_direct_entries_in_order_with_sizes"),
    (HasNoSizes, "a_listing_has_the_direct_entries_in_order_with_sizes"),
    (WalksEverything, "a_walk_finds_every_file_below_but_hidden_and_vendored_folders"),
    (RaisesItsOwn, "what_is_not_there_is_missing"),
    (SaysNothing, "what_is_not_there_is_missing"),
    (DeletesByPrefix, "a_deleted_file_is_gone_and_its_neighbour_is_not"),
    (DeletesTheRoot, "the_root_is_never_deleted"),
    (FollowsDots, "a_path_that_could_lead_elsewhere_is_refused"),
    (KnowsOneSpelling, "different_spellings_of_a_path_lead_to_one_file"),
    (KeepsToAscii, "a_strange_name_is_still_a_name"),
    (ShadowsFolders, "folders_and_files_are_not_confused"),
    (IsVague, "it_says_whether_it_blocks_and_where_it_is_at_home"),
    (FindsNothing, "the_file_tools_of_an_agent_work_on_it"),
]


@pytest.mark.parametrize(("kind", "name"), BROKEN, ids=[f"{kind.__name__}-{name[:30]}" for kind, name in BROKEN])
def test_a_backend_that_breaks_a_promise_fails_the_test_that_asks_for_it(tmp_path, kind, name):
    class Contract(BackendContract):
        def make(self, folder):
            return kind(folder) if issubclass(kind, FilesystemBackend) else kind()

    with pytest.raises((AssertionError, ToolError, KeyError, TypeError)):
        getattr(Contract(), f"test_{name}")(tmp_path)
