"""The size of the project only goes down: size.json holds it, and is lowered with it."""

import json

import pytest

from size import FOLDERS, code_lines, counts

SLACK = 300
"""Lines below which the counts have to be written again: python benchmarks/size.py --write."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_nothing_grows_and_what_has_shrunk_is_written_down(folder, root):
    limits = json.loads((root / "size.json").read_text())[folder]
    found = counts(FOLDERS[folder])
    assert found["files"] <= limits["files"]
    for what in ("lines", "code"):
        assert limits[what] - SLACK <= found[what] <= limits[what], what


def test_code_is_counted_without_words():
    assert code_lines('"""Words."""\n\n# why\nx = 1\nY = 2\n"""What Y is."""\n') == 2
    assert code_lines('def f():\n    """Words.\n\n    More.\n    """\n    return """a\nb"""\n') == 3
