"""Print the lines of requirements.lock that likewise needs without extras, hashes included."""

import importlib.metadata
import re
import sys
from pathlib import Path

from packaging.requirements import Requirement


def needed(name: str, found: set[str]) -> set[str]:
    """Return a package and what it needs, and so on."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name not in found:
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed(requirement.name, found)
    return found


lock = Path(sys.argv[1]).read_text(encoding="utf-8")
locked = {block.partition("==")[0]: block for block in re.split(r"(?m)^(?=[a-z0-9])", lock)[1:]}
names = sorted(needed("likewise", set()) - {"likewise"})
if absent := [name for name in names if name not in locked]:
    sys.exit(f"{sys.argv[1]} does not have {', '.join(absent)}.")
print("".join(locked[name] for name in names), end="")
