"""MLflow model folders: which file in them is the model."""

from pathlib import Path

from likewise.errors import InvalidFile
from likewise.files import read_whole

FLAVOURS = {
    "sklearn": ("pickled_model", ""),
    "onnx": ("data", ""),
    "xgboost": ("data", ""),
    "lightgbm": ("data", ""),
    "pytorch": ("model_data", "model.pth"),
}
"""By flavour: the entry of the ``MLmodel`` file that names the model's file, and a file in it."""

LARGEST = 1_000_000


def model_file(folder: Path) -> Path:
    """Return the file that holds the model, judging by the folder's ``MLmodel``; no MLflow needed.

    Opening that file follows its own rules: a pickle inside still needs trust.
    """
    listing = folder / "MLmodel"
    try:
        text = read_whole(listing, most=LARGEST).decode()
    except (InvalidFile, UnicodeDecodeError):
        raise InvalidFile(
            f"{str(folder)!r} is a folder without a readable MLmodel file, so not an MLflow model."
        ) from None
    flavours = read_flavours(text)
    known = [name for name in FLAVOURS if name in flavours]
    if not known:
        found = ", ".join(flavours) or "none"
        raise InvalidFile(
            f"{str(folder)!r} has no flavour that can be opened (it has: {found[:80]}; these can: "
            f"{', '.join(FLAVOURS)})."
        )
    entry, inside = FLAVOURS[known[0]]
    name = flavours[known[0]].get(entry)
    if not name:
        raise InvalidFile(f"{str(listing)!r} does not say where the {known[0]} model is.")
    path = folder / name / inside if inside else folder / name
    try:
        inside_folder = path.resolve().is_relative_to(folder.resolve())
        there = path.is_file()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        inside_folder, there = True, False
    # A folder from someone else must not point elsewhere on this machine.
    if not inside_folder:
        raise InvalidFile(f"{str(listing)!r} points outside its folder ({name[:80]!r}).")
    if not there:
        raise InvalidFile(f"{str(listing)!r} names {name[:80]!r}, which is not there.")
    return path


def read_flavours(text: str) -> dict[str, dict[str, str]]:
    """Read the flavours, and their plain entries, out of the YAML of an ``MLmodel`` file.

    MLflow writes one entry a line, two spaces a level; whatever else is there does not matter.
    """
    flavours: dict[str, dict[str, str]] = {}
    inside, current = False, None
    for line in text.splitlines():
        key, colon, value = line.strip().partition(":")
        depth = len(line) - len(line.lstrip(" "))
        if not colon or line.lstrip().startswith(("#", "-")):
            continue
        if depth == 0:
            inside, current = key == "flavors", None
        elif inside and depth == 2:
            current = flavours.setdefault(key, {})
        elif depth == 4 and current is not None:
            current[key] = value.strip().strip("'\"")
    return flavours
