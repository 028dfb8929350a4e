"""How large the house is: what someone new has to read, and what a new map has to touch.

    python benchmarks/house.py [--json]

Lines of source; modules, functions and changes of room on the path of one default audit in
memory, counted while it runs; questions ``isinstance`` about a concrete map, metric or test; and
the lines and files that name one map, the swap of the protected value, outside its own file.
`tests/test_house.py` holds each figure as an upper limit.
"""

import ast
import dataclasses
import importlib
import inspect
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

SOURCE = Path(__file__).resolve().parents[1] / "src"
KINDS = {"UnfairMap", "FairMetric", "RatioTest"}
"""What a map, a metric and a test are; whatever is below one of these is a concrete kind."""

MAP = ("likewise.maps.flips", "Flips", "flips")
"""The map that stands for a new one: its module, its class, its name in settings."""


@dataclasses.dataclass(frozen=True)
class House:
    """The figures, and what they should become."""

    lines: int
    modules_of_an_audit: int
    functions_of_an_audit: int
    room_changes_of_an_audit: int
    isinstance_of_concrete_kinds: int
    lines_that_name_a_map: int
    files_that_name_a_map: int


GOALS = {
    "lines": 23_000,
    "modules_of_an_audit": 60,
    "room_changes_of_an_audit": 30,
    "isinstance_of_concrete_kinds": 8,
}


def measure() -> House:
    """Return all figures of the source beside this file."""
    trees = dict(parsed())
    modules, functions, changes = path_of_an_audit()
    naming = {name: lines for name, tree in trees.items() if (lines := lines_naming(tree, name))}
    return House(
        lines=sum(len(path.read_text("utf-8").splitlines()) for path in SOURCE.rglob("*.py")),
        modules_of_an_audit=modules,
        functions_of_an_audit=functions,
        room_changes_of_an_audit=changes,
        isinstance_of_concrete_kinds=len(list(questions(trees))),
        lines_that_name_a_map=sum(len(lines) for lines in naming.values()),
        files_that_name_a_map=len(naming),
    )


def parsed() -> Iterator[tuple[str, ast.Module]]:
    """Yield each module's name and its syntax tree."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield module_of(path), ast.parse(path.read_text("utf-8"))


def module_of(path: Path) -> str:
    """Return the dotted name of a source file."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def path_of_an_audit() -> tuple[int, int, int]:
    """Count modules, functions and room changes of a default audit in memory.

    A function counts once, where it is first called. The room changes when the first call of a
    module comes after that of a module in another room (`walk` and its neighbours are one each).
    """
    called: dict[Any, None] = {}

    def notice(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            called.setdefault(frame.f_code)

    audit = small_audit()
    # All is imported beforehand: what an import calls is not called by the audit.
    for module in pkgutil.walk_packages([str(SOURCE / "likewise")], "likewise."):
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
        if code.co_filename.startswith(str(SOURCE / "likewise"))
        and code.co_flags & inspect.CO_NEWLOCALS
    ]
    modules = list(dict.fromkeys(module_of(Path(code.co_filename)) for code in functions))
    rooms = [name.split(".")[1] for name in modules if "." in name]
    return len(modules), len(functions), sum(a != b for a, b in pairwise(rooms))


def small_audit() -> Callable[[], None]:
    """Return an audit with default settings: a logistic model, and a table with three features."""
    import numpy as np
    import pyarrow as pa
    from sklearn.linear_model import LogisticRegression

    import likewise

    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 3))
    group = x[:, 0] + rng.normal(size=500) > 0
    y = x[:, 0] + x[:, 1] + 0.5 * rng.normal(size=500) > 0
    model = LogisticRegression().fit(x[250:], y[250:])
    columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "group": group, "y": y}
    table = pa.table({name: column[:250] for name, column in columns.items()})

    def audit() -> None:
        people = likewise.read(table, label="y", protected=["group"])
        # In this thread, where its calls are noticed.
        likewise.audit(model, people, run=likewise.Inline())

    return audit


def questions(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Yield where ``isinstance`` or ``match`` asks for a concrete map, metric or test."""
    concrete = concrete_kinds(trees)
    for name, tree in trees.items():
        for node in ast.walk(tree):
            asked: ast.expr | None = None
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                asked = node.args[1]
            elif isinstance(node, ast.MatchClass):
                asked = node.cls
            if asked is not None and concrete & set(names_in(asked)):
                yield f"{name}:{asked.lineno}"


def concrete_kinds(trees: dict[str, ast.Module]) -> set[str]:
    """Return the names of all classes below what a map, a metric or a test is."""
    bases = [
        (node.name, {name for base in node.bases for name in names_in(base)})
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    found = set(KINDS)
    while below := {name for name, above in bases if above & found} - found:
        found |= below
    return found - KINDS


def names_in(node: ast.expr) -> list[str]:
    """Return the last part of each dotted name in an expression."""
    return [
        part.id if isinstance(part, ast.Name) else part.attr
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    ]


def lines_naming(tree: ast.Module, module: str) -> set[int]:
    """Return the lines of a module that name the `MAP`, its own module's excepted."""
    home, kind, name = MAP
    if module == home:
        return set()
    imported = any(
        isinstance(node, ast.ImportFrom) and node.module == home for node in ast.walk(tree)
    )
    return {
        node.lineno
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and node.module == home)
        or (isinstance(node, ast.Name) and node.id == kind and imported)
        or (isinstance(node, ast.Constant) and node.value in (name, kind))
    }


def main() -> None:
    """Print the figures, and the goal of each that has one."""
    house = dataclasses.asdict(measure())
    if "--json" in sys.argv:
        print(json.dumps(house))
        return
    for name, value in house.items():
        goal = f"   (goal: {GOALS[name]:,})" if name in GOALS else ""
        print(f"{name.replace('_', ' '):<30} {value:>7,}{goal}")


if __name__ == "__main__":
    main()
