"""The benchmarks of faults and damaged input, in small: identical results, or one sentence."""

import os
import subprocess
import sys

import pytest


def finished(root, script, *arguments):
    done = subprocess.run(
        [sys.executable, root / "benchmarks" / script, "--quick", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_audits_by_every_method_survive_kills_damage_changed_data_and_full_disks(root):
    lines = finished(root, "faults.py")
    assert lines[-1].startswith("every audit ended as if nothing had happened")
    kills = [line for line in lines if line.startswith("killed so far")]
    assert int(kills[-1].split()[-3]) == 12
    assert any(line.startswith("journals damaged") for line in lines)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_damaged_input_of_every_kind_is_read_or_refused_in_a_sentence(root):
    _, *rows, last = finished(root, "fuzz.py")
    assert last.endswith("each read or refused in a sentence")
    refused = [int(row[31:40].replace(",", "")) for row in rows]
    assert sum(count > 0 for count in refused) >= 18  # some damage is harmless
