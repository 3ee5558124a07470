"""The shell scripts with which a `SandboxBackend` does its work, and how it reads what they say.

They need a POSIX shell with find, stat, sha256sum, base64, tr, grep, mv, rm and mkdir, which busybox and every common
image have. Paths are arguments and never part of a script, so a name may hold anything but a NUL. Listings travel as
base64, so that neither a terminal, nor an encoding, nor a line break in a name can change them.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterator
from stat import S_ISDIR, S_ISLNK
from typing import Any

from ..errors import ToolError
from ..ports import FileInfo
from .paths import VENDORED, join

MISSING, IS_FOLDER, IS_FILE, CHANGED, NOT_REGULAR, TOO_LARGE = 91, 92, 93, 94, 95, 96
"""The exit codes of scripts."""

_MARK = "MINIDEEP_COMMAND"
"""The variable in the environment of a command, and of all that it starts, by which they are found."""
_MARKED = rf"""
marked() {{
  for p in /proc/[0-9]*; do
    tr '\0' '\n' 2>/dev/null <$p/environ | grep -qx "{_MARK}=$1" && echo "${{p#/proc/}}"
  done 2>/dev/null
}}
"""
_END = """
end() {
  p=$(marked "$1")
  [ -n "$p" ] || return 0
  kill -TERM $p 2>/dev/null
  sleep 0.3
  while p=$(marked "$1"); [ -n "$p" ]; do kill -KILL $p 2>/dev/null; sleep 0.05; done
}
"""
RUN = f"""{_MARKED}{_END}
cd -- "$1" || exit 125
shell=$(command -v bash || echo sh)
{_MARK}=$3 TERM=dumb PAGER=cat "$shell" -c "$2" </dev/null 2>&1 &
wait $!
code=$?
[ -z "$(marked "$3")" ] || {{ sleep 0.2; end "$3"; }}
exit $code
"""
"""Run the command $2 in the folder $1, mark it with $3, and end what it leaves behind."""
STOP = f"""{_MARKED}{_END}
end "$1"
"""
"""End all processes that are marked with $1."""

_STAT = "'%f %s %Y %n//'"
"""Mode in hex digits, size, time and path. The end is `//` and a line break: no path that `find` prints has a `//`."""
_EXISTS = f"""
[ -e "$1" ] || [ -L "$1" ] || exit {MISSING}
"""
LIST = f"""{_EXISTS}
[ -d "$1" ] || exit {IS_FILE}
cd -- "$1" || exit 1
{{
  find . ! -name . -prune ! -type l -exec stat -c {_STAT} {{}} +
  find . ! -name . -prune -type l -exec test -e {{}} \\; -exec stat -L -c {_STAT} {{}} \\;
  find . ! -name . -prune -type l ! -exec test -e {{}} \\; -exec stat -c {_STAT} {{}} \\;
}} 2>/dev/null | base64
"""
"""List the folder $1. `-prune` instead of `-maxdepth`, which POSIX does not have; three times, as the find of busybox
runs an `-exec +` in the second part of an `-o` never."""
_SKIPPED = " -o ".join(f"-name {name}" for name in ("'.?*'", *sorted(VENDORED)))
_BELOW = f"find . -type d ! -name . \\( {_SKIPPED} \\) -prune -o"
WALK = f"""[ -e "$1" ] || exit {MISSING}
[ -d "$1" ] || {{ stat -L -c '%f %s %Y .//' -- "$1" | base64; exit; }}
cd -- "$1" || exit 1
{{
  {_BELOW} -type f -exec stat -c {_STAT} {{}} +
  {_BELOW} -type l -exec test -f {{}} \\; -exec stat -L -c {_STAT} {{}} \\;
}} 2>/dev/null | base64
"""
"""List the regular files below $1."""
READABLE = f"""{_EXISTS}
[ -d "$1" ] && exit {IS_FOLDER}
[ -f "$1" ] || exit {NOT_REGULAR}
[ "$(stat -L -c %s -- "$1")" -le "$2" ] || exit {TOO_LARGE}
"""
"""Check that $1 is a regular file of at most $2 bytes."""
REPLACE = f"""
trap 'rm -f -- "$2"' EXIT
[ -d "$1" ] && exit {IS_FOLDER}
[ -e "$1" ] && [ ! -f "$1" ] && exit {NOT_REGULAR}
if [ -n "$3" ]; then
  [ -e "$1" ] || exit {MISSING}
  [ "$(sha256sum <"$1")" = "$3  -" ] || exit {CHANGED}
fi
target=$(readlink -f -- "$1" 2>/dev/null && echo x)
target=${{target%?x}}
[ -n "$target" ] || target=$1
mkdir -p -- "${{target%/*}}/" || exit 1
[ -e "$1" ] && chmod "$(stat -L -c %a -- "$1")" "$2"
mv -f -- "$2" "$target"
"""
"""Put the file $2 in the place of $1, if that has the SHA-256 $3, or if none is given. A link stays one.

The `x` keeps line breaks at the end of a name, which `$(...)` would drop."""
RESOLVE = """
d=$1
rest=
while [ ! -d "$d" ] && [ ! -L "$d" ] && [ -n "$d" ]; do rest=/${d##*/}$rest; d=${d%/*}; done
d=$(readlink -f -- "${d:-/}" && echo x)
d=${d%?x}
printf '%s' "${d%/}$rest" | base64
"""
"""Say to which place $1 leads: as far as it exists, with all links followed."""
DELETE = f"""{_EXISTS}
list() {{
  if [ -d "$1" ] && [ ! -L "$1" ]; then
    cd -- "$1" && find . ! -type d -exec stat -c {_STAT} {{}} + | base64
  else
    echo '8000 0 0 .//' | base64
  fi
}}
list "$1" && cd / && rm -rf -- "$1"
"""
"""Delete $1, and list the files that were there."""


def decoded(output: str) -> bytes:
    """Return the listing that a script wrote.

    Raises:
        ToolError: it is not one.
    """
    try:
        return b64decode(re.sub(r"\s", "", output), validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(f"the sandbox answered {output[:200]!r} where a listing was expected; try again") from None


def entries(folder: str, listing: bytes) -> Iterator[FileInfo]:
    """Read a listing of *folder*."""
    for record in listing.removesuffix(b"//\n").split(b"//\n") if listing else ():
        mode, size, modified, name = record.split(b" ", 3)
        below = name.decode(errors="surrogateescape").removeprefix(".").removeprefix("/")
        kind = int(mode, 16)
        info: dict[str, Any] = {"is_dir": S_ISDIR(kind), "size": int(size), "modified": float(modified)}
        path = join(folder, below) if below else folder
        # A link that was not followed leads nowhere.
        yield FileInfo(path) if S_ISLNK(kind) else FileInfo(path, **info)
