"""Sequential audits by betting (test martingales): look as often as you like.

Testing again and again with a test made for one look flags a model at the limit in 14 to 26 % of
cases instead of 5 %. A betting test does not (Ville's inequality).
"""

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float
from pydantic import Field
from scipy.special import logsumexp, stdtrit

from likewise.errors import InvalidFile, InvalidSample, InvalidSettings, in_short
from likewise.files import read_whole, write_whole
from likewise.outcomes import Outcomes, provenance, troubles
from likewise.record import Part, RateComparison, Record, parse
from likewise.stats.estimate import check_alpha, check_delta
from likewise.stats.two_way import SIDES, Side

BETS = (0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.75, 0.95)
"""Shares of the wealth that the ten bets stake on each row."""

FROM_THE_START = 0.6
"""Share of the wealth that is bet from the first row on; the rest begins later."""

BLOCK = 65_536
"""Rows worked on at a time, so that memory does not grow with what is fed."""

FORMAT = 2
MAX_STATE_BYTES = 100_000_000
"""Bytes of a saved state that are read."""

FIXED = ("map", "output", "classes", "settings_hash", "model", "metric", "learned", "pool")
"""What pieces of one audit must agree on, as far as they say."""


class BettingTest(NamedTuple):
    """The rules, fixed beforehand: limit on the mean, error rate, and the smallest value."""

    delta: float
    alpha: float
    lo: float


Logarithms = Annotated[tuple[float, ...], Field(min_length=len(BETS), max_length=len(BETS))]


class WealthState(Part):
    r"""All that is kept of the rows: sums, and what latched.

    ``excess`` is the sum of :math:`R_i - \delta`, ``log_wealth`` the logarithm of the wealth by
    each bet made from the first row on, ``log_joined`` that of
    :math:`\sum_{s \le t} w_s / \prod_{i < s} (\cdot)`, empty before the first row: times its wealth
    it is that of all bets begun at any row s with :math:`w_s`. ``log_peak`` is the largest
    :math:`\log K_t` so far, ``rejected_at`` the row where :math:`K_t` first reached
    :math:`1/\alpha`.
    """

    n: int = 0
    excess: float = 0.0
    log_wealth: Logarithms = (0.0,) * len(BETS)
    log_joined: Logarithms | tuple[()] = ()
    log_peak: float = 0.0
    rejected_at: int | None = None

    @property
    def joined(self) -> Float[np.ndarray, " k"]:
        """The logarithms of later bets, as an array; minus infinity before the first row."""
        return np.array(self.log_joined or (-math.inf,) * len(BETS))


def play(test: BettingTest, state: WealthState, ratios: Float[np.ndarray, " n"]) -> WealthState:
    r"""Bet on more rows, one after the other.

    .. math:: K_t^{(s)} = \tfrac{1}{10} \sum_j \prod_{i = s}^t
              \Bigl(1 + f_j \frac{R_i - \delta}{\delta - \text{lo}}\Bigr), \qquad
              K_t = .6 \, K_t^{(1)} + .4 \sum_s w_s K_t^{(s)}

    Bets from the first row on have lost by the time a model gets worse, so others begin at every
    row s, with :math:`w_s = G(s-1) - G(s)`, :math:`G(t) = (1 + t/1000)^{-1/5}`: a mixture of
    martingales is one, whatever the weights. It has a recursion, so two numbers a bet are kept.

    Sums run strictly from row to row, so rows fed in pieces give the same bits as rows fed at once.
    """
    for start in range(0, len(ratios), BLOCK):
        excess = ratios[start : start + BLOCK] - test.delta
        stakes = np.array(BETS) / (test.delta - test.lo)
        before = np.array(state.log_wealth)
        log_wealth = _running(before, np.log1p(excess[:, None] * stakes))
        rows = state.n + 1 + np.arange(len(excess))
        count = rows.astype(np.float64)
        join = np.log(_yet_to_join(count - 1) - _yet_to_join(count))
        log_joined = join[:, None] - np.concatenate([before[None], log_wealth[:-1]])
        log_joined[0] = np.logaddexp(state.joined, log_joined[0])
        log_joined = np.logaddexp.accumulate(log_joined, axis=0)
        log_k = _log_mean_wealth(count, log_wealth, log_joined)
        enough = log_k >= -math.log(test.alpha)
        first = int(rows[enough.argmax()]) if enough.any() else None
        state = WealthState(
            n=int(rows[-1]),
            excess=float(_running(np.array([state.excess]), excess[:, None])[-1, 0]),
            log_wealth=tuple(log_wealth[-1].tolist()),
            log_joined=tuple(log_joined[-1].tolist()),
            log_peak=max(state.log_peak, float(log_k.max())),
            rejected_at=state.rejected_at or first,
        )
    return state


def _running(
    start: Float[np.ndarray, " k"], terms: Float[np.ndarray, "n k"]
) -> Float[np.ndarray, "n k"]:
    return np.cumsum(np.concatenate([start[None], terms]), axis=0)[1:]


def _yet_to_join(rows: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
    """Return the part that is bet later than after so many rows."""
    return (1 + rows / 1000) ** -0.2


def _log_mean_wealth(
    rows: Float[np.ndarray, " t"],
    log_wealth: Float[np.ndarray, "t 10"],
    log_joined: Float[np.ndarray, "t 10"],
) -> Float[np.ndarray, " t"]:
    r"""Return :math:`\log K_t` after so many rows."""
    first = logsumexp(log_wealth, axis=1) - math.log(len(BETS))
    joined = logsumexp(log_wealth + log_joined, axis=1) - math.log(len(BETS))
    joined = np.logaddexp(joined, np.log(_yet_to_join(rows)))
    return np.logaddexp(math.log(FROM_THE_START) + first, math.log1p(-FROM_THE_START) + joined)


class Bet(Part):
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
    direction: Side
    limit: float
    factor: float
    allowance: float

    @classmethod
    def from_row(cls, row: RateComparison, delta: float, level: float, direction: Side) -> "Bet":
        """Return one direction of a comparison, fixed by its first audit."""
        factor, bias = 1 / (1 - row.kappa), row.bias if direction == "up" else -row.bias
        error = float(stdtrit(row.degrees, 1 - level)) * row.reference_error
        return cls(
            **row.model_dump(include={"attribute", "group", "other", "outcome", "column"}),
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
        keys = ("attribute", "group", "other")
        names = (f"{self.column}: own", f"{self.column}: swapped")
        for name in (*keys, "weight", *names):
            if name not in rows.column_names:
                raise InvalidSample(
                    f"These rows have no column {name!r}: audit by matched pairs with the same "
                    "settings."
                )
        for name in keys:
            rows = rows.filter(pc.equal(rows[name], getattr(self, name)))
        _check_independent("rows", len(rows["weight"].unique()) > 1)
        own, other = (rows[name].to_numpy(zero_copy_only=False) for name in names)
        if not (np.isfinite(own).all() and np.isfinite(other).all()):
            raise InvalidSample("A monitor drops no one, and some rows are not finite. Mend them.")
        if self.complement:
            own, other = 1 - own, 1 - other
        w = self.factor * (other - own) - (self.limit - 1) * own
        return (w if self.direction == "up" else -w) - self.allowance


class SavedMonitor(Part):
    """The state of a monitor, as it is written: what it began with, and what it has seen."""

    likewise_monitor: int = FORMAT
    delta: float
    alpha: float
    lo: float
    level: float
    bets: tuple[Bet, ...] = ()
    sources: tuple[str, ...]
    audit: dict[str, Any]
    wealth: dict[str, WealthState]


@dataclasses.dataclass(frozen=True)
class Look:
    r"""What is known of one bet after the n rows fed so far.

    ``mean`` is their mean loss ratio (by matched pairs: of w), ``e_value`` the wealth :math:`K_t`
    that betting 1 against the model has made; ``p_value`` is one over the largest wealth so far (at
    most one), valid whenever one stops; ``rejected_at`` is the row at which the wealth first
    reached :math:`1/\alpha`, or None; ``held_back`` says why this is no evidence: the metric was
    learned; ``bet`` is the comparison and direction by matched pairs.
    """

    n: int
    mean: float
    e_value: float
    p_value: float
    rejected_at: int | None
    held_back: str = ""
    bet: Bet | None = None

    @property
    def rejected(self) -> bool:
        """Whether the limit was ever found to be exceeded, and nothing holds that back."""
        return self.rejected_at is not None and not self.held_back


class Monitor:
    r"""A sequential test: feed rows of audits as they come, look whenever you like.

    *Betting decides.* Under :math:`H_0: E R \le \delta` no bet on loss ratios R can expect to win,
    so the wealth :math:`K_t` ever reaches :math:`1/\alpha` with probability at most :math:`\alpha`:
    for any number of rows and looks, without a moment beyond the mean. It is followed at every row,
    so a decision depends neither on when one looks nor on how rows are cut; once made, it stays.

    Model, method and metric are fixed beforehand, and rows come in an order that does not depend
    on their ratios. A *learned* metric gives no evidence here: it takes a negative control, which
    only an audit of all rows at once can make.

    *By matched pairs* (`Monitor.from_audit`) a first audit fixes reference sample, correction and
    allowance. For each comparison and direction the mean of

    .. math:: w_i = \frac{other_i - own_i}{1 - \kappa} - (\delta - 1)\,own_i - c, \qquad
              c = \frac{b + |b|/2}{1 - \kappa} + t_{1-\alpha/4} \sqrt{V_{pairs} + V_b}

    is at most zero while the ratio is at most :math:`\delta`, whatever the reference sample has
    left, so that the wealth ever reaches :math:`4/\alpha` with probability at most
    :math:`\alpha/4`. Downwards everything is mirrored at :math:`1/\delta`; with k comparisons
    :math:`\alpha` is divided by k.

    Parameters
    ----------
    delta, alpha
        The limit, and how often a model at the limit may ever be flagged.
    lo
        The smallest ratio that can occur. 1 is right for methods that leave people alone when the
        loss would fall, and finds unfairness sooner; a smaller ratio is an error.
    bets, level
        Of matched pairs, as `Monitor.from_audit` fixes them: every comparison in both directions,
        and the error rate of each.

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
        bets: Sequence[Any] = (),
        level: float | None = None,
    ) -> None:
        check_delta(delta)
        for rate in (alpha, alpha if level is None else level):
            check_alpha(rate)
        if not 0 <= lo < delta:
            raise InvalidSettings(
                f"lo, the smallest ratio that can occur, must be at least 0 and below delta = "
                f"{delta:g} (got {lo:g})."
            )
        self.delta, self.alpha, self.lo, self.level = delta, alpha, lo, level or alpha
        self.bets = tuple(map(Bet.model_validate, bets))
        self.tests = {bet.name: BettingTest(0.0, self.level, bet.lowest) for bet in self.bets}
        if not self.bets:
            self.tests = {"loss_ratio": BettingTest(delta, alpha, lo)}
        self.sources: tuple[str, ...] = ()
        """Names of the pieces fed so far, where they had one."""
        self._wealth = {name: WealthState() for name in self.tests}
        self._audit: dict[str, Any] = {}

    @classmethod
    def from_audit(cls, audit: Any) -> "Monitor":
        """Return a monitor by matched pairs that starts from a first audit, or from its record.

        The audit must have been given a reference sample.
        """
        record: Record = getattr(audit, "record", audit)
        part = record.matched_pairs
        if part is None or not part.pool_given:
            raise InvalidSample(
                "A monitor by matched pairs starts from an audit with a reference sample (--pool)."
            )
        _check_independent("people", record.data.weighted, record.data.clusters > 0)
        rows = [row for row in part.comparisons if row.measure in ("decision", "score")]
        rows = [row for row in rows if not math.isnan(row.kappa) and row.degrees > 0]
        if not rows:
            raise InvalidSample("No comparison of the first audit could be made. Audit again.")
        level = part.alpha / (4 * len(rows))
        bets = [Bet.from_row(row, part.delta, level, side) for row in rows for side in SIDES]
        monitor = cls(part.delta, part.alpha, bets=bets, level=level)
        monitor._audit = {"settings_hash": record.settings_hash, "model": record.model.sha256}
        if not part.in_pool:  # else the sample is smaller by those who were audited
            monitor._audit["pool"] = part.pool_sha256
        return monitor

    def update(self, rows: Any, *, source: str | None = None) -> None:
        """Feed rows in the order in which they came: one a person, and comparison if there are any.

        They are those of an audit with the same settings (``result.rows``); other methods than
        matched pairs take outcomes, or bare loss ratios, too. A piece with a bad row, from another
        audit, or with the name (``source``) of one that was fed before, is refused whole.
        """
        if isinstance(rows, pa.Table) and b"likewise.outcomes" in (rows.schema.metadata or {}):
            rows = Outcomes.from_arrow(rows)
        if not isinstance(rows, pa.Table if self.bets else Outcomes | np.ndarray):
            raise InvalidSample(
                f"This monitor takes no {type(rows).__name__}. Give it the rows of an audit with "
                "the same settings (result.rows); by matched pairs, start with Monitor.from_audit."
            )
        about: Any = provenance(rows) if self.bets else getattr(rows, "about", {})
        values = {bet.name: bet.values(rows) for bet in self.bets}
        values = values or {"loss_ratio": _ratios(rows, self.lo)}
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
            self._wealth[name] = play(self.tests[name], self._wealth[name], own)
        self._audit = {**now, **self._audit}
        self.sources += () if source is None else (source,)

    def looks(self) -> tuple[Look, ...]:
        """Say what is known now, bet by bet. Looking changes nothing."""
        learned = "the metric was learned: audit all rows at once, with its negative control"
        found = []
        for (name, test), bet in zip(self.tests.items(), self.bets or (None,), strict=True):
            state = self._wealth[name]
            wealth = np.array([state.log_wealth]), state.joined[None]
            held_back = learned if state.rejected_at and self._audit.get("learned") else ""
            log_wealth = float(_log_mean_wealth(np.array([float(state.n)]), *wealth)[0])
            found.append(
                Look(
                    n=state.n,
                    mean=test.delta + state.excess / state.n if state.n else math.nan,
                    e_value=math.exp(log_wealth) if log_wealth < 709 else math.inf,
                    p_value=math.exp(-state.log_peak),
                    rejected_at=state.rejected_at,
                    held_back=held_back,
                    bet=bet,
                )
            )
        return tuple(found)

    def look(self) -> Look:
        """Say what is known now of the bet with the smallest p-value."""
        return min(self.looks(), key=lambda look: look.p_value)

    @property
    def rejected(self) -> bool:
        """Whether some limit was found to be exceeded; once found, it stays."""
        return any(look.rejected for look in self.looks())

    def save(self, path: str | Path) -> None:
        """Write the state as JSON. A crash leaves the old file or the new one, never half of it."""
        known = {name: getattr(self, name) for name in ("delta", "alpha", "lo", "level", "bets")}
        state = SavedMonitor(**known, sources=self.sources, audit=self._audit, wealth=self._wealth)
        write_whole(path, f"{state.model_dump_json(indent=2)}\n".encode())

    @classmethod
    def load(cls, path: str | Path, **settings: float | None) -> "Monitor":
        """Read what a monitor saved, and go on.

        A setting that is given must be the saved one: bets already made cannot be taken back.
        """
        content = read_whole(path, most=MAX_STATE_BYTES)
        try:
            state = parse(content, finite=True)
            if isinstance(state, dict) and state.get("likewise_monitor", FORMAT) != FORMAT:
                raise ValueError("it was written by another version. Upgrade likewise")
            saved = SavedMonitor.model_validate(state)
            monitor = cls(saved.delta, saved.alpha, lo=saved.lo, level=saved.level, bets=saved.bets)
            monitor.sources, monitor._audit = saved.sources, saved.audit
            monitor._wealth = {name: saved.wealth[name] for name in monitor.tests}
            monitor.looks()
        except (KeyError, ValueError, OverflowError) as error:
            raise InvalidFile(
                f"{str(path)!r} is not a monitor file, or a damaged one: {in_short(error)}."
            ) from None
        for name, wanted in settings.items():
            now = getattr(monitor, name)
            if wanted is not None and wanted != now:
                raise InvalidSettings(
                    f"The monitor in {str(path)!r} was started with {name} = {now} and cannot "
                    f"change to {wanted:g} now. Start a new monitor, on new rows."
                )
        return monitor


def _check_independent(what: str, weights: bool, clusters: bool = False) -> None:
    if weights or clusters:
        raise InvalidSample(
            f"These {what} have {'weights' if weights else 'clusters'}, and a monitor bets on "
            "one independent person at a time. Audit them at once, or without weights and clusters."
        )


def _ratios(rows: Outcomes | Float[np.ndarray, " n"], lo: float) -> Float[np.ndarray, " n"]:
    """Return loss ratios that can be bet on, or say why they cannot."""
    ratios = rows.ratio if isinstance(rows, Outcomes) else rows
    if isinstance(rows, Outcomes):
        _check_independent("outcomes", rows.weight is not None, rows.cluster is not None)
        if rows.about.get("task") == "regression":
            raise InvalidSample(
                "The ratio of two squared errors has no finite mean, so a regression cannot be "
                "monitored. Audit it at once."
            )
        if stuck := troubles(rows.counts()):
            raise InvalidSample(f"A monitor drops no one. Mend their audit: {stuck[0]}.")
    if len(ratios) == 0:
        raise InvalidSample("There are no rows to feed.")
    bad = ~((ratios >= lo) & np.isfinite(ratios))
    if bad.any():
        raise InvalidSample(
            f"{bad.sum()} of {len(ratios)} ratios are not finite or lie below lo = {lo:g} (the "
            f"first: {ratios[bad.argmax()]:g}, row {bad.argmax()}), and no row is dropped. Mend "
            "the audit of these rows, or start the monitor with a smaller lo."
        )
    return ratios
