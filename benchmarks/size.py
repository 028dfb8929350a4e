"""How large the project is, and what the README's command goes through.

    python benchmarks/size.py [--json | --write]

Lines, lines of code (no blanks, comments or docstrings) and files of the package, studies, tests
and benchmarks; modules, functions and changes of room on the path of the README's audit, counted
while it runs. ``--write`` puts the counts into size.json, which a test holds them to.
"""

import ast
import importlib
import inspect
import io
import json
import os
import pkgutil
import sys
import tokenize
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "likewise"
FOLDERS = {
    "likewise": PACKAGE,
    "studies": ROOT / "src" / "likewise_studies",
    "tests": ROOT / "tests",
    "benchmarks": ROOT / "benchmarks",
}
SILENT = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)


def counts(folder: Path) -> dict[str, int]:
    """Return lines, lines of code and files of a folder."""
    texts = [path.read_text("utf-8") for path in sorted(folder.rglob("*.py"))]
    return {
        "lines": sum(len(text.splitlines()) for text in texts),
        "code": sum(map(code_lines, texts)),
        "files": len(texts),
    }


def code_lines(text: str) -> int:
    """Count lines that hold code: no blanks, comments or docstrings."""
    kept: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            kept.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        # A string that stands alone is a docstring, of an attribute too.
        text_alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if text_alone and isinstance(node.value.value, str):
            kept.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(kept)


def path_of_an_audit() -> dict[str, int]:
    """Count modules, functions and room changes of the README's audit.

    A function counts once, where it is first called. The room changes when the first call of a
    module comes after that of a module in another room; a module of the root is a room.
    """
    called: dict[Any, None] = {}

    def notice(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            called.setdefault(frame.f_code)

    audit = readme_audit()
    # All is imported beforehand: what an import calls is not called by the audit.
    for module in pkgutil.walk_packages([str(PACKAGE)], "likewise."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    sys.setprofile(notice)
    try:
        audit()
    finally:
        sys.setprofile(None)
    functions = [
        code
        for code in called
        if code.co_filename.startswith(str(PACKAGE)) and code.co_flags & inspect.CO_NEWLOCALS
    ]
    places = [Path(code.co_filename).relative_to(PACKAGE) for code in functions]
    modules = list(dict.fromkeys(places))
    rooms = [module.parts[0] for module in modules]
    return {
        "modules": len(modules),
        "functions": len(functions),
        "room_changes": sum(a != b for a, b in pairwise(rooms)),
    }


def readme_audit() -> Callable[[], None]:
    """Return an audit by matched pairs with default checks, and its summary."""
    import numpy as np
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    import likewise

    rng = np.random.default_rng(0)
    n = 1500
    table = pd.DataFrame({"income": rng.normal(size=n), "debt": rng.normal(size=n)})
    table["sex"] = rng.choice(["f", "m"], n)
    table["zip"] = rng.normal(size=n) + (table["sex"] == "m")
    table["paid"] = (table["income"] + table["zip"] + rng.normal(size=n) > 0).astype(int)
    train, people, pool = table[:500], table[500:1000], table[1000:]
    model = LogisticRegression().fit(train[["income", "debt", "zip"]], train["paid"])

    def audit() -> None:
        # In this thread, where its calls are noticed.
        result = likewise.audit(
            model,
            people,
            label="paid",
            protected="sex",
            may_matter=["income", "debt"],
            favourable=1,
            pool=pool,
            executor=likewise.executors.Inline(),
        )
        result.summary()

    return audit


def main() -> None:
    """Print the counts, or write them."""
    found = {name: counts(folder) for name, folder in FOLDERS.items()}
    if "--write" in sys.argv:
        (ROOT / "size.json").write_text(json.dumps(found, indent=2) + "\n")
        return
    measured: dict[str, dict[str, int]] = {**found, "path of an audit": path_of_an_audit()}
    if "--json" in sys.argv:
        print(json.dumps(measured))
        return
    for name, values in measured.items():
        shown = "   ".join(f"{value:,} {what.replace('_', ' ')}" for what, value in values.items())
        print(f"{name:<18}{shown}")


if __name__ == "__main__":
    main()
