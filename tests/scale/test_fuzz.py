"""A little of benchmarks/fuzz.py: whatever a file holds, it is read or refused in a sentence."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "fuzz.py"
INPUTS = 60


@pytest.fixture(scope="module")
def fuzz() -> Any:
    spec = importlib.util.spec_from_file_location("fuzz_benchmark", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_damaged_input_of_every_kind_is_read_or_refused_in_a_sentence(fuzz, tmp_path):
    targets = fuzz.targets(tmp_path)
    assert len(targets) >= 20
    assert sum(target.share for target in targets.values()) == pytest.approx(1)
    for name, target in targets.items():
        ran, refused = fuzz.attack(target, INPUTS)
        assert ran >= INPUTS / 2, name
        if name not in ("report", "CSV"):  # most words and some damage are harmless there
            assert refused > 0, name
