"""Models fitted on original columns of numbers, given the features of an encoder."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, final

import numpy as np
from jaxtyping import Float
from typing_extensions import override

from likewise.audit_data import GAP
from likewise.errors import InvalidModel
from likewise.models.base import Front, Model, ModelCard, Pullback, Reference
from likewise.models.black_box import from_predictor
from likewise.models.decoded import Decoder, EncoderFront
from likewise.models.layered import Chain, LayeredModel
from likewise.models.layers import Affine, Network, linear
from likewise.models.pipeline import PipelineFront
from likewise.models.scikit import Answer


@final
@dataclasses.dataclass(frozen=True, eq=False)
class DecodedInputs(Model):
    r"""A model of original numbers as a function of an encoder's features.

    A model with gradients is fed :math:`A x + b`, which is the original row wherever ``x`` is the
    features of one; others are fed the nearest row that could be in the table (`Decoder.decode`).

    Parameters
    ----------
    card
        What is known of it, in terms of the features.
    inner
        The model, fed columns of numbers as they stand in the table.
    encoder
        What made the features.
    columns
        The columns it reads, in its order.
    """

    card: ModelCard
    inner: Model
    encoder: Decoder
    columns: tuple[str, ...]
    declared: bool = True
    front: Front | None = None

    @classmethod
    def of(cls, inner: Model, encoder: Decoder, columns: tuple[str, ...]) -> "DecodedInputs":
        """Put an encoder in front of a model."""
        card = dataclasses.replace(
            inner.card,
            n_features=len(encoder.features),
            features=encoder.features,
            space="original",
        )
        return cls(card, inner, encoder, columns, inner.declared)

    @property
    @override
    def dtype(self) -> np.dtype[Any]:  # type: ignore[override]
        return self.inner.dtype

    @property
    @override
    def reference(self) -> Reference | None:  # type: ignore[override]
        own = self.inner.reference
        return None if own is None else lambda x: own(self.rows(x))

    @functools.cached_property
    def line(self) -> tuple[Float[np.ndarray, "c d"], Float[np.ndarray, " c"]]:
        """The matrix and the offset that turn features into original numbers."""
        return self.encoder.line(self.columns)

    @functools.cached_property
    def _gaps(self) -> dict[str, int]:
        """Where features say that a column which the model reads is missing."""
        places = {name: j for j, name in enumerate(self.encoder.features)}
        return {n: places[n + GAP] for n in self.columns if n + GAP in places}

    def rows(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n c"]:
        """Return what the model is fed for rows of features."""
        if self.card.differentiable:
            gone = [name for name, j in self._gaps.items() if (x[:, j] > 0.5).any()]
            if gone:
                raise InvalidModel(
                    f"The {self.card.kind} reads numbers, and {gone[0]!r} is missing for some "
                    "people. Leave them out with drop_missing (--drop-missing), or audit the "
                    "pipeline that fills the gaps."
                )
            matrix, offset = self.line
            return x @ matrix.T + offset
        table = self.encoder.decode(x)
        return np.column_stack(
            [np.asarray(table[name].to_numpy(), dtype=np.float64) for name in self.columns]
        )

    @override
    def __call__(self, x: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        return self.inner(self.rows(x))

    @override
    def outputs_and_pullback(
        self, x: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, "n k"], Pullback]:
        out, pullback = self.inner.outputs_and_pullback(self.rows(x))
        matrix = self.line[0]
        return out, lambda gradient: pullback(gradient) @ matrix

    @functools.cached_property
    @override
    def cells(self) -> Callable[[np.ndarray], np.ndarray] | None:
        own = self.inner.cells
        return None if own is None else lambda x: own(self.rows(x))

    @functools.cached_property
    @override
    def network(self) -> Network | None:
        own = self.inner.network
        if own is None:
            return None
        (matrix, offset), first = self.line, own.layers[0]
        folded = Affine(
            first.activation, first.weight @ matrix, first.bias + first.weight @ offset[:, None]
        )
        return Network((folded, *own.layers[1:])) if not first.activation else None


def in_units(model: Model, encoder: Decoder) -> DecodedInputs:
    """Return a model of numbers as one of the same numbers in standard deviations."""
    fed = DecodedInputs.of(model, encoder, encoder.columns)
    card = dataclasses.replace(fed.card, space=model.card.space)
    return dataclasses.replace(fed, card=card, front=EncoderFront(encoder.columns, encoder))


def of_numbers(whole: Any, front: PipelineFront, last: Model, units: Decoder) -> Model:
    """Return a pipeline as one model of numbers, with gradients where its steps are a line."""
    box = from_predictor(whole)
    known: dict[str, Any] = {
        "kind": f"Pipeline ending in {last.card.kind}",
        "classes": last.card.classes,
        "threshold": last.card.threshold,
        "decisions": last.card.decisions,
    }
    line = front.line(units) if isinstance(last, LayeredModel) else None
    if line is None or not isinstance(last, LayeredModel):
        return box.with_card(**known)
    chain = Chain((linear(*line), *last.chain.layers))
    known |= {"n_features": len(units.columns), "features": box.card.features}
    card = dataclasses.replace(last.card, **known)
    return dataclasses.replace(last, card=card, chain=chain, reference=Answer.of(whole))
