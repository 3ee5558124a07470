"""Keep out of the source distribution what git does not track."""

import subprocess

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class TrackedOnly(BuildHookInterface):
    """Excludes untracked files; the tree of an unpacked distribution, which git does not know, is taken as it is."""

    def initialize(self, version, build_data):
        if self._git("--cached", "pyproject.toml"):
            untracked = self._git("--others", "--directory", "--no-empty-directory")
            self.build_config.target_config.setdefault("exclude", []).extend(map(_pattern, untracked))

    def _git(self, *args):
        command = ["git", "ls-files", "-z", *args]
        try:
            found = subprocess.run(command, cwd=self.root, capture_output=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return []
        return found.decode(errors="surrogateescape").split("\0")[:-1]


def _pattern(path):
    return "/" + "".join(f"\\{char}" if char in "\\*?[]!# " else char for char in path)
