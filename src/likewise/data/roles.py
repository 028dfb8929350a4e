"""What each column of a table means: label, protected trait, weight, cluster, input."""

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from likewise.errors import InvalidData, nearest

Names = str | Sequence[str]


@dataclasses.dataclass(frozen=True)
class Roles:
    """Names of the columns that are not simply inputs of the model.

    Parameters
    ----------
    label
        What the model predicts.
    protected
        Protected traits. They are no inputs unless ``inputs`` lists them.
    weight, cluster
        Sampling weight of a person, and the cluster (a household, say) they belong to.
    ignore
        Columns that nobody reads.
    inputs
        The model's input columns, in its order; by default every column without a role, in the
        order of the table.
    """

    label: str | None = None
    protected: Names = ()
    weight: str | None = None
    cluster: str | None = None
    ignore: Names = ()
    inputs: Names | None = None

    def __post_init__(self) -> None:
        for field in ("protected", "ignore", "inputs"):
            names = getattr(self, field)
            if names is not None:
                object.__setattr__(
                    self, field, (names,) if isinstance(names, str) else tuple(names)
                )
        taken: dict[str, str] = {}
        for role, name in self._given():
            if name in taken:
                again = f"as {taken[name]} and as {role}" if taken[name] != role else "twice"
                raise InvalidData(f"Column {name!r} is named {again}. Give it one role.")
            taken[name] = role
        for name in self.inputs or ():
            if taken.get(name, "protected") != "protected":
                raise InvalidData(
                    f"Column {name!r} is named as {taken[name]}, so it cannot be an input too."
                )
        check_names(self.inputs or (), "the inputs")

    def _given(self) -> list[tuple[str, str]]:
        single = {"label": self.label, "weight": self.weight, "cluster": self.cluster}
        several = {"protected": self.protected, "ignored": self.ignore}
        return [(role, name) for role, name in single.items() if name is not None] + [
            (role, name) for role, names in several.items() for name in names
        ]

    def check(self, columns: Collection[str]) -> None:
        """Refuse a role whose column is not among ``columns``."""
        for role, name in self._given():
            require(name, columns, role)
        for name in self.inputs or ():
            require(name, columns, "input")

    def candidates(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that may be inputs, in the model's order if that is known."""
        if self.inputs is not None:
            return tuple(self.inputs)
        taken = {name for _, name in self._given()}
        return tuple(name for name in columns if name not in taken)

    def original(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that describe a person: all but label, weight, cluster, ignored."""
        hidden = {self.label, self.weight, self.cluster, *self.ignore}
        return [name for name in columns if name not in hidden]


def require(name: str, columns: Collection[str], role: str) -> None:
    """Refuse a column that the table does not have."""
    if name in columns:
        return
    hint = nearest(name, columns)
    only = next(iter(columns)) if len(columns) == 1 else ""
    if mark := next((mark for mark in ",;\t|" if mark in only), None):
        hint = (
            f" Its only column is {only[:60]!r}: say what separates values with "
            f"--csv-separator {mark!r}."
        )
    raise InvalidData(f"The table has no column {name!r}, named as {role}.{hint}")


def check_names(names: Sequence[str], where: str) -> None:
    """Refuse a name that occurs twice."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InvalidData(f"Column {twice!r} occurs twice in {where}. Remove or rename one.")
