"""What may be missing: extras are named when they are needed, and not asked for before."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

WITHOUT = """
import runpy, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


def run_without(absent: set[str], code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(absent=absent) + code],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


def test_scikit_learns_models_and_saved_networks_are_audited_without_torch():
    script = str(ROOT / ".ci" / "light_audit.py")
    code = f"runpy.run_path({script!r}, run_name='__main__')"
    done = run_without({"torch", "pandas", "matplotlib"}, code)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "Pipeline ending in LogisticRegression",
        "RandomForestClassifier",
        "network",
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "from likewise.models import as_model; as_model(lambda x: x, output='logits')",
            "function of tensors",
        ),
        ("from likewise.training import SenSRClassifier", "SenSRClassifier"),
        (
            "import likewise.models, pathlib, tempfile\n"
            "path = pathlib.Path(tempfile.mkdtemp()) / 'm.pt'\n"
            "path.write_bytes(b'x')\n"
            "likewise.models.open_model(str(path), trust=True)",
            "file written by torch",
        ),
    ],
)
def test_what_needs_torch_says_how_to_get_it(code, words):
    done = run_without({"torch"}, code)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("likewise.errors.MissingExtra")
    assert words in last
    assert last.endswith("needs torch, which is not installed: pip install 'likewise[torch]'.")
