"""Sequential audits: look as often as you like, and the error rate still holds.

Testing again and again with a test made for one look flags a model at the limit in 14 to 26 % of
cases instead of 5 %. A betting test does not (Ville's inequality).
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float
from scipy.special import stdtrit

from likewise.errors import InvalidFile, InvalidSample, InvalidSettings, in_short
from likewise.files import read_whole, write_whole
from likewise.outcomes import Outcomes, provenance, troubles
from likewise.record import RateComparison, Record
from likewise.record.json_text import parse
from likewise.stats.estimate import check_alpha, check_delta
from likewise.stats.sequential import BETS, BettingTest, WealthState, log_mean_wealth, play

FORMAT = 2
LARGEST = 100_000_000
"""Bytes of a saved state that are read."""

FIXED = ("map", "output", "classes", "settings_hash", "model", "metric", "learned", "pool")
"""What pieces of one audit must agree on, as far as they say."""

Direction = Literal["up", "down"]


class SavedMonitor:
    """What monitors have in common: bets by name, pieces that are fed once, and a state in JSON."""

    kind: str

    def __init__(self, delta: float, alpha: float, tests: Mapping[str, BettingTest]) -> None:
        self.delta, self.alpha, self.tests = delta, alpha, tests
        self.sources: tuple[str, ...] = ()
        """Names of the pieces fed so far, where they had one."""
        self._wealth = {name: WealthState() for name in tests}
        self._audit: dict[str, Any] = {}

    @property
    def settings_hash(self) -> str:
        """Hash of the settings of the audit that is followed; empty if its rows do not say."""
        return str(self._audit.get("settings_hash", ""))

    def state(self) -> dict[str, Any]:
        """Return what is saved beside the wealth."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the state as JSON. A crash leaves the old file or the new one, never half of it."""
        about = {
            "likewise_monitor": FORMAT,
            "kind": self.kind,
            "sources": self.sources,
            "audit": self._audit,
            "wealth": {name: dataclasses.asdict(one) for name, one in self._wealth.items()},
        }
        text = json.dumps({**about, **self.state()}, indent=2, allow_nan=False)
        write_whole(path, f"{text}\n".encode())

    @staticmethod
    def load(path: str | Path, **settings: float | None) -> "Monitor | PairMonitor":
        """Read what a monitor saved, of either kind, and go on.

        A setting that is given must be the saved one: bets already made cannot be taken back.
        """
        saved = _read_state(path)
        try:
            kind: Any = {"gradient_flow": Monitor, "matched_pairs": PairMonitor}[saved["kind"]]
            monitor: Monitor | PairMonitor = kind.from_state(saved)
            monitor.sources, monitor._audit = tuple(saved["sources"]), dict(saved["audit"])
            monitor._wealth = {name: _wealth(saved["wealth"][name]) for name in monitor.tests}
            monitor.look()
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            damage = in_short(error)
            raise InvalidFile(f"{str(path)!r} is a damaged monitor file ({damage}).") from None
        for name, wanted in settings.items():
            now = getattr(monitor, name, None)
            if wanted is not None and wanted != now:
                raise InvalidSettings(
                    f"The monitor in {str(path)!r} was started with {name} = {now} and cannot "
                    f"change to {wanted:g} now. Start a new monitor, on new rows."
                )
        return monitor

    def _feed(
        self,
        values: Mapping[str, np.ndarray],
        about: Mapping[str, Any],
        source: str | None,
    ) -> None:
        """Bet on a piece, unless it was fed before or comes from another audit."""
        if source is not None and source in self.sources:
            raise InvalidSample(f"The rows of {source!r} were fed before. Feed only new rows.")
        now = {name: about[name] for name in FIXED if about.get(name) not in (None, "")}
        for name, value in now.items():
            if self._audit.get(name, value) != value:
                raise InvalidSample(
                    f"These rows come from another audit: their {name} is {value!r}, and the rows "
                    f"before had {self._audit[name]!r}. A monitor follows one fixed audit."
                )
        for name, own in values.items():
            if len(own):
                self._wealth[name] = play(self.tests[name], self._wealth[name], own)
        self._audit = {**now, **self._audit}
        self.sources += () if source is None else (source,)


def _read_state(path: str | Path) -> dict[str, Any]:
    try:
        saved = parse(read_whole(path, most=LARGEST), finite=True)
    except InvalidFile:
        raise
    except ValueError as error:
        raise InvalidFile(f"{str(path)!r} is not a monitor file: {error}.") from None
    version = saved.get("likewise_monitor") if isinstance(saved, dict) else None
    if not isinstance(version, int):
        raise InvalidFile(f"{str(path)!r} is not a monitor file: no likewise_monitor in it.")
    if version > FORMAT:
        raise InvalidFile(f"{str(path)!r} was written by a newer version. Upgrade likewise.")
    return saved


def _wealth(saved: Mapping[str, Any]) -> WealthState:
    lists = {name: tuple(saved.get(name, ())) for name in ("log_wealth", "log_joined")}
    found = WealthState(**{**saved, **lists})
    for number in (len(found.log_wealth), len(found.log_joined) or len(BETS)):
        if number != len(BETS):
            raise ValueError(f"{number} bets instead of {len(BETS)}")
    return found


@dataclasses.dataclass(frozen=True)
class Look:
    r"""What is known after the n rows fed so far.

    ``mean`` is their mean loss ratio, ``log_e_value`` the logarithm of :math:`K_t`, the wealth now;
    ``p_value`` is one over the largest wealth so far (at most one), valid whenever one stops;
    ``rejected_at`` is the row at which the wealth first reached :math:`1/\alpha`, or None;
    ``held_back`` says why this is no evidence: the metric was learned.
    """

    n: int
    mean: float
    log_e_value: float
    p_value: float
    rejected_at: int | None
    delta: float
    alpha: float
    held_back: str = ""

    @property
    def e_value(self) -> float:
        """Evidence against the model now: the wealth that betting 1 on it has made."""
        return math.exp(self.log_e_value) if self.log_e_value < 709 else math.inf

    @property
    def rejected(self) -> bool:
        """Whether the limit was ever found to be exceeded, and nothing holds that back."""
        return self.rejected_at is not None and not self.held_back

    @property
    def outcome(self) -> str:
        """Evidence, or inconclusive: a monitor never says "within tolerance"."""
        return "evidence" if self.rejected else "inconclusive"


class Monitor(SavedMonitor):
    r"""A sequential test of the mean loss ratio: feed rows as they come, look whenever you like.

    *Betting decides.* Under :math:`H_0: E R \le \delta` no bet can expect to win, so the wealth
    :math:`K_t` ever reaches :math:`1/\alpha` with probability at most :math:`\alpha`: for any
    number of rows and looks, without a moment beyond the mean. It is followed at every row, so a
    decision depends neither on when one looks nor on how rows are cut; once made, it stays.

    Model, method and metric are fixed beforehand, and rows come in an order that does not depend
    on their ratios. A *learned* metric gives no evidence here: it takes a negative control, which
    only an audit of all rows at once can make. By matched pairs: `Monitor.from_audit`.

    Parameters
    ----------
    delta, alpha
        The limit, and how often a model at the limit may ever be flagged.
    lo
        The smallest ratio that can occur. 1 is right for methods that leave people alone when the
        loss would fall, and finds unfairness sooner; a smaller ratio is an error.

    Examples
    --------
    >>> import numpy as np
    >>> monitor = Monitor(delta=1.25)
    >>> monitor.update(np.full(400, 1.5))
    >>> monitor.look().rejected
    True
    """

    kind = "gradient_flow"

    def __init__(self, delta: float = 1.25, alpha: float = 0.05, *, lo: float = 0.0) -> None:
        check_delta(delta)
        check_alpha(alpha)
        if not 0 <= lo < delta:
            raise InvalidSettings(
                f"lo, the smallest ratio that can occur, must be at least 0 and below delta = "
                f"{delta:g} (got {lo:g})."
            )
        self.lo = lo
        super().__init__(delta, alpha, {"loss_ratio": BettingTest(delta, alpha, lo)})

    @classmethod
    def from_audit(cls, audit: Any) -> "PairMonitor":
        """Return a monitor by matched pairs that starts from a first audit, or from its record."""
        return PairMonitor.from_record(getattr(audit, "record", audit))

    @classmethod
    def from_state(cls, saved: Mapping[str, Any]) -> "Monitor":
        """Return a monitor with the rules it began with."""
        return cls(saved["delta"], saved["alpha"], lo=saved["lo"])

    def state(self) -> dict[str, Any]:
        """Return what is saved beside the wealth."""
        return {"delta": self.delta, "alpha": self.alpha, "lo": self.lo}

    def update(
        self, rows: Outcomes | Float[np.ndarray, " n"], *, source: str | None = None
    ) -> None:
        """Feed outcomes, or bare loss ratios, in the order in which they came.

        A piece with a bad row, or with the name (``source``) of one that was fed before, is
        refused whole.
        """
        ratios = _ratios(rows) if isinstance(rows, Outcomes) else rows
        self._check(ratios)
        about = rows.about if isinstance(rows, Outcomes) else {}
        self._feed({"loss_ratio": ratios}, about, source)

    def look(self) -> Look:
        """Say what is known now. Looking changes nothing."""
        state = self._wealth["loss_ratio"]
        joined = state.log_joined or (-math.inf,) * len(BETS)
        log_k = log_mean_wealth(
            np.array([float(state.n)]), np.array([state.log_wealth]), np.array([joined])
        )
        held_back = "the metric was learned: audit all rows at once, with its negative control"
        return Look(
            n=state.n,
            mean=self.delta + state.excess / state.n if state.n else math.nan,
            log_e_value=float(log_k[0]),
            p_value=math.exp(-state.log_peak),
            rejected_at=state.rejected_at,
            delta=self.delta,
            alpha=self.alpha,
            held_back=held_back if state.rejected_at and self._audit.get("learned") else "",
        )

    def _check(self, ratios: Float[np.ndarray, " n"]) -> None:
        if len(ratios) == 0:
            raise InvalidSample("There are no rows to feed.")
        bad = ~np.isfinite(ratios)
        if bad.any():
            raise InvalidSample(
                f"{int(bad.sum())} of {len(ratios)} ratios are not finite (the first is row "
                f"{int(bad.argmax())}), and a monitor drops nobody. Mend the audit of these rows."
            )
        low = ratios < self.lo
        if low.any():
            raise InvalidSample(
                f"{int(low.sum())} of {len(ratios)} ratios lie below lo = {self.lo:g} (the "
                f"first is {ratios[low.argmax()]:g}, row {int(low.argmax())}), where the bets are "
                "not fair. Start the monitor with a smaller lo."
            )


def _ratios(outcomes: Outcomes) -> Float[np.ndarray, " n"]:
    if outcomes.weight is not None or outcomes.cluster is not None:
        kind = "weights" if outcomes.weight is not None else "clusters"
        raise InvalidSample(
            f"These outcomes have {kind}, and a monitor bets on one independent person at a time. "
            "Audit them at once, or without weights and clusters."
        )
    if outcomes.about.get("task") == "regression":
        raise InvalidSample(
            "The ratio of two squared errors has no finite mean, so a regression cannot be "
            "monitored. Audit it at once."
        )
    if stuck := troubles(outcomes.counts()):
        raise InvalidSample(f"A monitor drops nobody. Mend the audit of these rows: {stuck[0]}.")
    return outcomes.ratio


@dataclasses.dataclass(frozen=True)
class Bet:
    """One comparison in one direction, as it was fixed by the first audit.

    ``column`` is that of the rows whose mean own and swapped values are compared; ``complement``
    says that the outcome tested is the other one of two; ``limit`` is δ upwards and 1/δ downwards;
    ``factor`` is 1/(1 − κ); ``allowance`` is c, what correction and reference sample may be off by.
    """

    attribute: str
    group: str
    other: str
    outcome: str
    column: str
    complement: bool
    direction: Direction
    limit: float
    factor: float
    allowance: float

    @classmethod
    def from_row(
        cls, row: RateComparison, delta: float, level: float, direction: Direction
    ) -> "Bet":
        """Return one direction of a comparison, fixed by its first audit."""
        factor, bias = 1 / (1 - row.kappa), row.bias if direction == "up" else -row.bias
        error = float(stdtrit(row.degrees, 1 - level)) * row.reference_error
        return cls(
            attribute=row.attribute,
            group=row.group,
            other=row.other,
            outcome=row.outcome,
            column=row.column,
            complement=not row.column.endswith(f"={row.outcome}"),
            direction=direction,
            limit=delta if direction == "up" else 1 / delta,
            factor=factor,
            allowance=(bias + abs(bias) / 2) * factor + error,
        )

    @property
    def name(self) -> str:
        """By which its wealth is kept."""
        return f"{self.attribute}: {self.group} → {self.other}, {self.outcome}, {self.direction}"

    @property
    def lowest(self) -> float:
        """The smallest value of w that can occur."""
        if self.direction == "up":
            return -(self.factor + self.limit - 1) - self.allowance
        return -self.factor - max(1 - self.limit, 0.0) - self.allowance

    def values(self, rows: pa.Table) -> Float[np.ndarray, " n"]:
        """Return w of every person of this comparison."""
        names = (f"{self.column}: own", f"{self.column}: swapped")
        for name in ("attribute", "group", "other", *names):
            if name not in rows.column_names:
                raise InvalidSample(
                    f"These rows have no column {name!r}: audit by matched pairs with the same "
                    "settings."
                )
        for name in ("attribute", "group", "other"):
            rows = rows.filter(pc.equal(rows[name], getattr(self, name)))
        own, other = (rows[name].to_numpy(zero_copy_only=False) for name in names)
        if not (np.isfinite(own).all() and np.isfinite(other).all()):
            raise InvalidSample("A monitor drops nobody, and some rows are not finite. Mend them.")
        if self.complement:
            own, other = 1 - own, 1 - other
        w = self.factor * (other - own) - (self.limit - 1) * own
        return (w if self.direction == "up" else -w) - self.allowance


@dataclasses.dataclass(frozen=True)
class PairLook:
    """What is known of one comparison and direction after the rows fed so far.

    ``mean`` is that of w; ``p_value`` is valid whenever one stops, and is held against a level
    that all comparisons and directions share; ``rejected_at`` is the row at which the limit was
    found to be exceeded, or None.
    """

    bet: Bet
    n: int
    mean: float
    p_value: float
    rejected_at: int | None


class PairMonitor(SavedMonitor):
    r"""A sequential test by matched pairs, in both directions; made by `Monitor.from_audit`.

    A first audit fixes reference sample, correction and allowance. For each comparison and
    direction the mean of

    .. math:: w_i = \frac{other_i - own_i}{1 - \kappa} - (\delta - 1)\,own_i - c, \qquad
              c = \frac{b + |b|/2}{1 - \kappa} + t_{1-\alpha/4} \sqrt{V_{pairs} + V_b}

    is at most zero while the ratio is at most :math:`\delta`, whatever the reference sample has
    left, so that the wealth ever reaches :math:`4/\alpha` with probability at most
    :math:`\alpha/4`. Downwards everything is mirrored at :math:`1/\delta`; with k comparisons
    :math:`\alpha` is divided by k.
    """

    kind = "matched_pairs"

    def __init__(self, delta: float, alpha: float, level: float, bets: Sequence[Bet]) -> None:
        self.level, self.bets = level, tuple(bets)
        tests = {bet.name: BettingTest(0.0, level, bet.lowest) for bet in bets}
        super().__init__(delta, alpha, tests)

    @classmethod
    def from_record(cls, record: Record) -> "PairMonitor":
        """Start from the record of an audit by matched pairs whose reference sample was given."""
        part = record.matched_pairs
        if part is None or not part.pool_given:
            raise InvalidSample(
                "A monitor by matched pairs starts from an audit with a reference sample (--pool)."
            )
        rows = [row for row in part.comparisons if row.measure in ("decision", "score")]
        rows = [row for row in rows if not math.isnan(row.kappa) and row.degrees > 0]
        if not rows:
            raise InvalidSample("No comparison of the first audit could be made. Audit again.")
        level = part.alpha / (4 * len(rows))
        ways: tuple[Direction, ...] = ("up", "down")
        bets = [Bet.from_row(row, part.delta, level, way) for row in rows for way in ways]
        monitor = cls(part.delta, part.alpha, level, bets)
        monitor._audit = {"settings_hash": record.settings_hash, "model": record.model.sha256}
        if not part.in_pool:  # else the sample is smaller by those who were audited
            monitor._audit["pool"] = part.pool_sha256
        return monitor

    @classmethod
    def from_state(cls, saved: Mapping[str, Any]) -> "PairMonitor":
        """Return a monitor with the bets it began with."""
        bets = [Bet(**bet) for bet in saved["bets"]]
        return cls(float(saved["delta"]), float(saved["alpha"]), float(saved["level"]), bets)

    def state(self) -> dict[str, Any]:
        """Return what is saved beside the wealth."""
        bets = [dataclasses.asdict(bet) for bet in self.bets]
        return {"delta": self.delta, "alpha": self.alpha, "level": self.level, "bets": bets}

    def update(self, rows: pa.Table, *, source: str | None = None) -> None:
        """Feed one row a person and comparison, as an audit with the same settings wrote them."""
        self._feed({bet.name: bet.values(rows) for bet in self.bets}, provenance(rows), source)

    def look(self) -> tuple[PairLook, ...]:
        """Say what is known now. Looking changes nothing."""
        found = []
        for bet in self.bets:
            one = self._wealth[bet.name]
            mean = one.excess / one.n if one.n else math.nan
            found.append(PairLook(bet, one.n, mean, math.exp(-one.log_peak), one.rejected_at))
        return tuple(found)

    @property
    def rejected(self) -> bool:
        """Whether some limit was found to be exceeded; once found, it stays."""
        return any(one.rejected_at is not None for one in self.look())
