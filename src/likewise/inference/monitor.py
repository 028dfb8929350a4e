"""Audits that go on: look as often as you like, and the error rate still holds.

Testing again and again with a test made for one look accuses a model at the tolerance in 14 to
26 % of cases instead of 5 %.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from likewise.errors import InvalidFile, InvalidSample, InvalidSettings, in_short
from likewise.inference.estimate import check_alpha, check_delta
from likewise.inference.monitor_file import read_state, write_state
from likewise.inference.sequential import (
    BETS,
    FIRST_LOOK,
    Game,
    Purse,
    log_mean_wealth,
    lower_end,
    play,
)
from likewise.inference.verdict import placebos_against, placebos_tried
from likewise.outcomes import Outcomes, troubles

FIXED = ("map", "output", "classes", "settings_hash", "model", "metric")
"""What pieces of one audit must agree on, as far as their outcomes say."""


@dataclasses.dataclass(frozen=True)
class Look:
    r"""What is known after the rows fed so far.

    Parameters
    ----------
    n, mean
        Rows fed, and their mean loss ratio.
    log_e_value
        Natural logarithm of :math:`K_t`, the gamblers' mean purse now.
    p_value
        One over the largest purse so far (at most one): valid whenever one stops.
    rejected_at
        The row at which the purse first reached :math:`1/\alpha`; None if it never did.
    lower_bound
        Lower end of the confidence sequence now; None before row 100, or if all rows are equal.
    sequence_rejected_at
        The row at which that lower end first exceeded the tolerance. It does not decide.
    delta, alpha
        Tolerance, and how often a model at the tolerance may ever be accused.
    held_back
        Why a full purse accuses nobody (placebos); empty if nothing holds it back.
    """

    n: int
    mean: float
    log_e_value: float
    p_value: float
    rejected_at: int | None
    lower_bound: float | None
    sequence_rejected_at: int | None
    delta: float
    alpha: float
    held_back: str = ""

    @property
    def e_value(self) -> float:
        """Evidence against the model now: what one coin, staked on it, has become."""
        return math.exp(self.log_e_value) if self.log_e_value < 709 else math.inf

    @property
    def rejected(self) -> bool:
        """Whether the purse was ever full, and nothing holds an accusation back."""
        return self.rejected_at is not None and not self.held_back

    @property
    def outcome(self) -> str:
        """Evidence of unfairness, or inconclusive: a monitor never certifies."""
        return "evidence_of_unfairness" if self.rejected else "inconclusive"


class Monitor:
    r"""An audit without an end: feed rows as they come, look whenever you like.

    *Betting decides.* Ten gamblers stake shares of their purse on every row, and ten more join at
    each, with what is left of their first coin: they are there when a model gets worse late. Under
    :math:`H_0: E R \le \delta` no strategy can expect to win, so their mean purse :math:`K_t` ever
    reaches :math:`1/\alpha` with probability at most :math:`\alpha` (Ville's inequality): for any
    number of rows and looks, without a moment beyond the mean. It is watched at every row, so a
    decision depends neither on when one looks nor on how rows are cut; once made, it stays.

    *A confidence sequence stands beside it.* Its lower end says how large the ratio is; it holds
    in the limit, uniformly over all looks. Its mirror image is not offered: with skewed ratios it
    would certify too often.

    *A learned metric accuses only if placebos allow it*: of the audits fed, one at least must have
    tried shuffled traits, and all that did must have found the real ones to matter more.

    Both ask that model, map, metric and reach were fixed beforehand, and that rows come in an
    order that does not depend on their ratios. Whether the purse was ever full depends on every
    row before, so pieces are joined by feeding them to one monitor, in order; two monitors cannot
    be merged afterwards.

    Parameters
    ----------
    delta, alpha
        Tolerance, and how often a model at the tolerance may ever be accused.
    lo
        The smallest ratio that can occur. 1 is right for maps that leave people alone when the
        loss would fall, and finds unfairness sooner; a smaller ratio is an error.
    planned
        The number of rows at which the confidence sequence is made tightest.

    Examples
    --------
    >>> import numpy as np
    >>> monitor = Monitor(delta=1.25)
    >>> monitor.update(np.full(400, 1.5))
    >>> monitor.look().rejected
    True
    """

    def __init__(
        self,
        delta: float = 1.25,
        alpha: float = 0.05,
        *,
        lo: float = 0.0,
        planned: int = 1000,
    ) -> None:
        check_delta(delta)
        check_alpha(alpha, most=0.4)  # above it the confidence sequence's rho has no solution
        if not 0 <= lo < delta:
            raise InvalidSettings(
                f"lo, the smallest ratio that can occur, must be at least 0 and below delta = "
                f"{delta:g} (got {lo:g})."
            )
        if planned < FIRST_LOOK:
            raise InvalidSettings(
                f"planned must be at least {FIRST_LOOK} rows (got {planned}): the confidence "
                "sequence says nothing earlier."
            )
        self.game = Game(delta, alpha, lo, planned)
        self._purse = Purse()
        self._audit: dict[str, Any] = {}
        self._sources: tuple[str, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the pieces fed so far, where they had one."""
        return self._sources

    def update(
        self, rows: Outcomes | Float[np.ndarray, " n"], *, source: str | None = None
    ) -> None:
        """Feed outcomes, or bare loss ratios, in the order in which they came.

        A piece with a bad row is refused whole, and the monitor stays as it was.

        Parameters
        ----------
        source
            A name for the piece (the hash of its file, say). A name that was fed before is
            refused: counting people twice would make evidence out of nothing.
        """
        if source is not None and source in self._sources:
            raise InvalidSample(f"The rows of {source!r} were fed before. Feed only new rows.")
        audit = self._same_audit(rows.about) if isinstance(rows, Outcomes) else self._audit
        ratios = _ratios(rows) if isinstance(rows, Outcomes) else rows
        self._check(ratios)
        self._purse = play(self.game, self._purse, ratios)
        self._audit = audit
        if source is not None:
            self._sources = (*self._sources, source)

    def look(self) -> Look:
        """Say what is known now. Looking changes nothing."""
        purse, game = self._purse, self.game
        n, excess, squares = np.array([[purse.n], [purse.excess], [purse.squares]], np.float64)
        bound = float(lower_end(game, n, excess, squares)[0]) if purse.n else -math.inf
        joined = purse.log_joined or (-math.inf,) * len(BETS)
        tried = None if purse.rejected_at is None else self._audit.get("placebos")
        log_k = log_mean_wealth(game, n, np.array([purse.log_wealth]), np.array([joined]))
        return Look(
            n=purse.n,
            mean=game.delta + purse.excess / purse.n if purse.n else math.nan,
            log_e_value=float(log_k[0]),
            p_value=math.exp(-purse.log_peak),
            rejected_at=purse.rejected_at,
            lower_bound=None if math.isinf(bound) else bound,
            sequence_rejected_at=purse.sequence_rejected_at,
            delta=game.delta,
            alpha=game.alpha,
            held_back="" if tried is None else placebos_against(tried, game.alpha),
        )

    def save(self, path: str | Path) -> None:
        """Write the state as JSON. A crash leaves the old file or the new one, never half of it."""
        state = {
            "game": dataclasses.asdict(self.game),
            "purse": dataclasses.asdict(self._purse),
            "audit": self._audit,
            "sources": self._sources,
        }
        write_state(path, state)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        delta: float | None = None,
        alpha: float | None = None,
        lo: float | None = None,
        planned: int | None = None,
    ) -> "Monitor":
        """Read what `save` wrote, and go on.

        A setting that is given must be the saved one: bets already made cannot be taken back.
        """
        saved = read_state(path)
        try:
            # A game goes on by the rules it began with.
            game = Game(**{"restarts": False, **saved["game"]})
            monitor = cls(game.delta, game.alpha, lo=game.lo, planned=game.planned)
            monitor.game = game
            held = dict(saved["purse"])
            wealth = {name: tuple(held.get(name, ())) for name in ("log_wealth", "log_joined")}
            purse = monitor._purse = Purse(**{**held, **wealth})
            monitor._audit, monitor._sources = dict(saved["audit"]), tuple(saved["sources"])
            for number in (len(purse.log_wealth), len(purse.log_joined) or len(BETS)):
                if number != len(BETS):
                    raise ValueError(f"{number} gamblers instead of {len(BETS)}")
            monitor.look()
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            damage = in_short(error)
            raise InvalidFile(f"{str(path)!r} is a damaged monitor file ({damage}).") from None
        for name, wanted in {"delta": delta, "alpha": alpha, "lo": lo, "planned": planned}.items():
            if wanted is not None and wanted != getattr(game, name):
                raise InvalidSettings(
                    f"The monitor in {str(path)!r} was started with {name} = "
                    f"{getattr(game, name):g} and cannot change to {wanted:g} now. Start a new "
                    "monitor, on new rows."
                )
        return monitor

    @property
    def settings_hash(self) -> str:
        """Hash of the settings of the audit that is followed; empty if its outcomes do not say."""
        return str(self._audit.get("settings_hash", ""))

    def _same_audit(self, about: Mapping[str, Any]) -> dict[str, Any]:
        now = {name: about[name] for name in FIXED if name in about}
        for name, value in now.items():
            if self._audit.get(name, value) != value:
                raise InvalidSample(
                    f"These outcomes come from another audit: their {name} is {value!r}, and the "
                    f"rows before had {self._audit[name]!r}. A monitor follows one fixed audit."
                )
        if (tried := placebos_tried(about, "loss_ratio")) is None:
            return {**now, **self._audit}
        return {**now, **self._audit, "placebos": [*self._audit.get("placebos", ()), *tried]}

    def _check(self, ratios: Float[np.ndarray, " n"]) -> None:
        if len(ratios) == 0:
            raise InvalidSample("There are no rows to feed.")
        bad = ~np.isfinite(ratios)
        if bad.any():
            raise InvalidSample(
                f"{int(bad.sum())} of {len(ratios)} ratios are not finite (the first is row "
                f"{int(bad.argmax())}), and a monitor drops nobody. Mend the audit of these rows."
            )
        low = ratios < self.game.lo
        if low.any():
            raise InvalidSample(
                f"{int(low.sum())} of {len(ratios)} ratios lie below lo = {self.game.lo:g} (the "
                f"first is {ratios[low.argmax()]:g}, row {int(low.argmax())}), where the bets are "
                "not fair. Start the monitor with a smaller lo."
            )


def _ratios(outcomes: Outcomes) -> Float[np.ndarray, " n"]:
    if outcomes.weight is not None or outcomes.cluster is not None:
        kind = "weights" if outcomes.weight is not None else "clusters"
        raise InvalidSample(
            f"These outcomes have {kind}, and a monitor bets on one independent person at a time. "
            "Test them once, with likewise test, or audit without them."
        )
    if outcomes.about.get("task") == "regression":
        raise InvalidSample(
            "The ratio of two squared errors has no finite mean, so a regression cannot be "
            "monitored. Test it once, with likewise test."
        )
    if stuck := troubles(outcomes.counts()):
        raise InvalidSample(f"A monitor drops nobody. Mend the audit of these rows: {stuck[0]}.")
    return outcomes.ratio
