"""Outputs of the terminal that are closed or full."""

import os
import subprocess
import sys


def test_the_terminal_survives_closed_and_full_outputs(tmp_path):
    (tmp_path / "README.md").write_text("Nothing much is here at all.\n")
    for redirect, code in ((">&-", 0), ("> /dev/full", 1)):
        shell = f"{sys.executable} -m minideep run 'Say what is here' {redirect}"
        run = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                             env={k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")})  # fmt: skip
        assert (run.returncode, "Traceback" in run.stderr) == (code, False), run.stderr
