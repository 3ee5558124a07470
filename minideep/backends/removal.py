"""Delete a folder with all that is in it: looked through first, so that what must stay stops it before it begins."""

import os

from .beneath import Place, StoreFolder, Unreachable, listed
from .names import quoted


def remove_folder(place: Place) -> list[str]:
    """Delete the folder at *place*; links in it are unlinked, not followed.

    Returns the paths, from the folder on, of the files that are gone.

    Raises:
        Unreachable: there is the folder of a store in it; nothing was deleted.
        OSError: a part of it may not be listed (nothing was deleted) or deleted.
    """
    inner, files = _survey(place)
    for names in reversed(inner):
        with listed(place, names) as folder:
            with os.scandir(folder) as found:
                entries = list(found)
            for entry in entries:
                remove = os.rmdir if entry.is_dir(follow_symlinks=False) else os.unlink
                remove(entry.name, dir_fd=folder)
    os.rmdir(place.name, dir_fd=place.folder)
    return files


def _survey(place: Place) -> tuple[list[list[str]], list[str]]:
    """All folders, each before those in it, as names from *place* on; and all files."""
    inner: list[list[str]] = [[]]
    files: list[str] = []
    for names in inner:
        try:
            with listed(place, names) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        inner.append([*names, entry.name])
                    elif not _leads_to_folder(entry):
                        files.append("/".join([*names, entry.name]))
        except StoreFolder:
            if not names:
                raise
            inside = quoted("/".join(names))
            raise Unreachable(
                f"is not deleted, nor anything in it: {inside} in it is the folder of a store; delete the rest by name"
            ) from None
    return inner, files


def _leads_to_folder(link: os.DirEntry[str]) -> bool:
    try:
        return link.is_dir()
    except OSError:  # A link in a circle.
        return False
