"""Delete a folder and its contents, after inspecting all of it: an entry that must stay prevents the deletion."""

import os
from collections.abc import Callable

from .beneath import Place, StoreFolder, Unreachable, opened
from .names import quoted

Check = Callable[[str], None]
"""Asked with the path of each entry relative to the folder, before it is deleted; raises if it must stay."""


def remove_folder(place: Place, check: Check | None = None) -> list[str]:
    """Delete the folder at *place*; links in it are unlinked, not followed.

    Returns the paths of the deleted files, relative to the folder.

    Raises:
        Unreachable: it contains the folder of a store; nothing was deleted.
        ToolError: *check* refused an entry; nothing was deleted, unless the entry came meanwhile.
        OSError: part of it cannot be listed (nothing was deleted), or cannot be deleted.
    """
    folders, files = _survey(place, check)
    for names in reversed(folders):
        with opened(place, names) as folder:
            with os.scandir(folder) as found:
                entries = list(found)
            for entry in entries:
                if check is not None:  # It may be here only since the survey.
                    check("/".join([*names, entry.name]))
                remove = os.rmdir if entry.is_dir(follow_symlinks=False) else os.unlink
                remove(entry.name, dir_fd=folder)
    os.rmdir(place.name, dir_fd=place.folder)
    return files


def _survey(place: Place, check: Check | None) -> tuple[list[list[str]], list[str]]:
    """Return all folders, parents first, as names below *place*, and all files."""
    folders: list[list[str]] = [[]]
    files: list[str] = []
    for names in folders:  # Grows while it is read.
        try:
            with opened(place, names) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    if check is not None:
                        check("/".join([*names, entry.name]))
                    if entry.is_dir(follow_symlinks=False):
                        folders.append([*names, entry.name])
                    elif not _leads_to_folder(entry):
                        files.append("/".join([*names, entry.name]))
        except StoreFolder:
            if not names:
                raise
            problem = f"was not deleted, nor anything in it: {quoted('/'.join(names))} in it is the folder of a store"
            raise Unreachable(f"{problem}; delete the rest by name") from None
    return folders, files


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # A link to itself.
        return False
