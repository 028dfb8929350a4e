"""A little of benchmarks/fuzz.py: whatever a file holds, it is read or refused in a sentence."""

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_damaged_input_of_every_kind_is_read_or_refused_in_a_sentence(root):
    script = root / "benchmarks" / "fuzz.py"
    done = subprocess.run(
        [sys.executable, script, "--count", "600"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, *rows, _ = done.stdout.splitlines()
    refused = [int(row[31:40].replace(",", "")) for row in rows]
    assert len(refused) >= 20
    assert sum(count > 0 for count in refused) >= 18  # some damage is harmless
