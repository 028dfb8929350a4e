"""What a model must do to be audited: answer each row, with numbers, and by that row alone.

And until the end: some people are asked about again, since a model may change meanwhile.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from likewise.errors import InvalidData, InvalidModel, LikewiseError, NoAnswer, in_short
from likewise.losses import probabilities
from likewise.models.base import Model

SAMPLE = 64
BLOCK = 4096
CONVERSION = 1e-6
"""The largest difference between a model and its conversion that is let pass."""


def check(
    model: Model,
    x: Float[np.ndarray, "n d"],
    *,
    features: tuple[str, ...] = (),
    classes: tuple[Any, ...] = (),
) -> None:
    """Refuse a model that cannot be audited on these rows, and say why.

    Parameters
    ----------
    model
        The model, in the space of ``x``.
    x
        The audit rows. All are run through a differentiable model; a few through others, which
        may be dear to call.
    features
        Names of the columns of ``x``, to compare with those the model was fitted with.
    classes
        Label values, to compare their number with the model's outputs.
    """
    _check_width(model, x.shape[1], features)
    rows = _spread(x)
    _check_outputs(model, _run(model, rows), classes or model.card.classes)
    check_rows(model, x)
    if model.card.differentiable:
        _check_gradient(model, rows)
    check_conversion(model, x if model.card.differentiable else rows)


def check_rows(model: Model, x: Float[np.ndarray, "n d"]) -> None:
    """Refuse a model whose answers are random, or whose rows influence each other.

    Found by behaviour, on a few rows: the same twice, in reverse, in halves, and one alone. What
    a model says about itself (its mode, say) proves nothing.
    """
    rows = _spread(x)
    first = _run(model, rows)
    # Rounding depends on the shape of a product, so nothing is compared to the last bit.
    rounding = 1e-9 if model.dtype == np.float64 else 1e-4

    def gap(other: np.ndarray) -> float:
        return float((np.abs(other - first) / (1 + np.abs(first))).max())

    if gap(_run(model, rows)) > rounding:
        raise InvalidModel(
            "The model is random: the same rows gave different outputs twice. Is dropout on, or "
            "noise added, inside forward?"
        )
    if len(rows) == 1:
        return
    half = len(rows) // 2
    other_ways: dict[str, Callable[[], np.ndarray]] = {
        "in reverse order": lambda: _run(model, rows[::-1])[::-1],
        "in two halves": lambda: np.concatenate(
            [_run(model, rows[:half]), _run(model, rows[half:])]
        ),
        "with one of them alone": lambda: np.concatenate([_run(model, rows[:1]), first[1:]]),
    }
    for way, run in other_ways.items():
        try:
            found = gap(run())
        except NoAnswer:  # which says nothing about rows
            raise
        except InvalidModel as error:
            raise InvalidModel(
                f"The model's rows influence each other, or it takes a fixed number of them: the "
                f"same rows fail {way}. {error}"
            ) from None
        if found > rounding:
            raise InvalidModel(
                f"The model's rows influence each other: the same rows gave other outputs (by "
                f"{found:.2g}) {way}. Does it normalise over the batch, or rank it?"
            )


def check_conversion(model: Model, x: Float[np.ndarray, "n d"]) -> None:
    """Refuse a model that does not answer as the one it was converted from, on any row."""
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        out = _run(model, block, start)
        if model.reference is not None:
            theirs = np.asarray(model.reference(block), dtype=np.float64)
            _compare(model, out, theirs, "converted exactly", start)


def check_cut(model: Model, whole: Callable[[pa.Table], Any], table: pa.Table) -> None:
    """Refuse a pipeline that, cut in front of its last step, answers otherwise than whole."""
    some = table.take(pa.array(_places(len(table))))
    if model.front is None or len(some) == 0:
        return
    x, _ = model.front(some)
    known = np.isfinite(x).all(axis=1)  # a gap in the data is for others to report
    if known.any():
        theirs = np.asarray(whole(some.filter(pa.array(known))), dtype=np.float64)
        _compare(model, _run(model, x[known]), theirs, "cut as it should be")


def _compare(
    model: Model,
    out: Float[np.ndarray, "n k"],
    theirs: Float[np.ndarray, "n ..."],
    how: str,
    start: int = 0,
) -> None:
    numbers = model.card.task == "regression"
    ours = out if numbers else probabilities(out, model.card.output)
    other = theirs.reshape(len(ours), -1)
    if other.shape != ours.shape:
        raise InvalidModel(
            f"The {model.card.kind} gives {other.shape[1]} columns, its conversion {ours.shape[1]}."
        )
    # Predictions may be in any unit, so a difference between them is relative.
    gap = (np.abs(ours - other) / (1 + np.abs(other) if numbers else 1)).max(axis=1)
    if not gap.max() <= CONVERSION:
        raise InvalidModel(
            f"The {model.card.kind} was not {how}: row {start + int(gap.argmax())} differs by "
            f"{gap.max():.2g} (more than {CONVERSION:g})."
        )


def _check_width(model: Model, given: int, features: tuple[str, ...]) -> None:
    expected, known = model.card.n_features, model.card.features
    if expected is not None and expected != given:
        strangers = [name for name in features if known and name not in known]
        which = f" ({', '.join(strangers[:5])} not among them)" if strangers else ""
        raise InvalidModel(
            f"The model takes {expected} features, but the data have {given}{which}: name its "
            "inputs with inputs (columns.inputs), leave columns out with ignore (--ignore), or "
            "give the encoder it was trained with (--encoder)."
        )
    if known != features and set(known) == set(features):
        j = next(j for j in range(given) if known[j] != features[j])
        raise InvalidModel(
            f"The model was fitted with its columns in another order: column {j + 1} is "
            f"{known[j]!r} there, and {features[j]!r} in the data."
        )


def _check_outputs(model: Model, out: Float[np.ndarray, "n k"], classes: tuple[Any, ...]) -> None:
    width = out.shape[1]
    if model.card.task == "regression":
        if width != 1:
            raise InvalidModel(f"The model predicts {width} numbers a person; an audit needs one.")
        return
    if classes and len(classes) != max(width, 2):
        raise InvalidModel(
            f"The model has {width} outputs, but there are {len(classes)} classes "
            f"({', '.join(map(repr, classes[:6]))})."
        )
    # How far from probabilities: rounded or in single precision, they are off by a little.
    excess = float(np.maximum(-out, out - 1).max())
    if width > 1:
        excess = max(excess, float(np.abs(out.sum(axis=1) - 1).max()))
    if model.card.output == "probabilities" and excess > 1e-3:
        raise InvalidModel(
            "The model's outputs are said to be probabilities, but they leave [0, 1] or do not "
            "add up to 1."
        )
    taken_for_logits = model.card.output == "logits" and not model.declared
    if taken_for_logits and excess < 1e-6:
        raise InvalidModel(
            "The model's outputs look like probabilities, not logits. Say so with "
            "output='probabilities' (columns.output), or better, audit it without its last layer."
        )


def _check_gradient(model: Model, rows: Float[np.ndarray, "n d"]) -> None:
    out, pullback = model.outputs_and_pullback(rows)
    if not np.isfinite(pullback(np.ones_like(out))).all():
        raise InvalidModel("The model's gradient is NaN or infinite for some of the rows.")


def _run(model: Model, rows: Float[np.ndarray, "n d"], start: int | None = None) -> np.ndarray:
    try:
        out = model(rows)
    except LikewiseError:
        raise
    except Exception as error:
        raise InvalidModel(
            f"The model cannot be run on rows of {rows.shape[1]} features: {in_short(error)}."
        ) from None
    bad = (~np.isfinite(out)).any(axis=1)
    if bad.any():
        first = "" if start is None else f", first row {start + int(bad.argmax())}"
        raise InvalidModel(
            f"The model returns NaN or infinite numbers for {int(bad.sum())} of {len(out)} rows "
            f"tried{first}."
        )
    return out


def _spread(x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m d"]:
    """Return a few rows, evenly spread over all."""
    if len(x) == 0:
        raise InvalidData("There are no rows to try the model on.")
    return x[_places(len(x))]


def _places(n: int) -> Int[np.ndarray, " m"]:
    return np.unique(np.linspace(0, n - 1, min(SAMPLE, n)).astype(np.int64))


def answers_about_some(model: Model, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "m k"]:
    """Return what a model says about a few of the people, evenly spread over all."""
    return np.asarray(_run(model, _spread(x)), dtype=np.float64)


ROUNDING = 1e-4
"""How far two answers may lie apart: what an endpoint sends may be in single precision."""


@dataclasses.dataclass(frozen=True, eq=False)
class Remembered:
    """What a model said about a few people before the audit.

    Parameters
    ----------
    x
        All the people; the few are evenly spread over them.
    before
        What the model said.
    """

    model: Model
    x: Float[np.ndarray, "n d"]
    before: Float[np.ndarray, "m k"]

    @classmethod
    def of(cls, model: Model, x: Float[np.ndarray, "n d"]) -> "Remembered":
        """Ask a model about a few of the people."""
        return cls(model, x, answers_about_some(model, x))

    def reasons(self) -> tuple[str, ...]:
        """Ask again; return why the audit must not be used, if the answers are others now."""
        now = answers_about_some(self.model, self.x)
        gap = (np.abs(now - self.before) / (1 + np.abs(self.before))).max(axis=1)
        changed = int((gap > ROUNDING).sum())
        if not changed:
            return ()
        return (
            f"the model changed during the audit: asked again at the end about {len(gap)} people, "
            f"it answered otherwise about {changed} of them (by up to {gap.max():.2g})",
        )
