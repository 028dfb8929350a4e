"""Runs a study of the paper, and gives its tables, figures and numbers with ours beside them."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pydantic import TypeAdapter

from likewise.errors import InvalidSettings, import_optional, nearest
from likewise.files import make_folder
from likewise.method import Progress
from likewise_studies import figures, simulation, summary
from likewise_studies.jobs import FinishedJobs, run_jobs
from likewise_studies.paper_studies import ADULT, COMPAS
from likewise_studies.published import NOTES
from likewise_studies.stopping_time import TIMES, run_path, times_table
from likewise_studies.study import Row, Study, run_one
from likewise_studies.text_tables import Table

STUDIES = {"simulation": 1, "adult": 10, "compas": 10, "stopping-time": 1}
"""Studies, and how many splits each has unless told."""


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """What a study gave: tables for a terminal or a page, all numbers as plain values, figures."""

    study: str
    title: str
    tables: tuple[Table, ...]
    results: Mapping[str, Any]
    figures: Mapping[str, Figure]

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know where ours and the published numbers differ."""
        return NOTES[self.study]


def reproduce(
    study: str,
    folder: Path,
    *,
    splits: int | None = None,
    workers: int = 2,
    progress: Progress | None = None,
) -> Reproduction:
    """Run one of the paper's studies.

    Parameters
    ----------
    study
        ``simulation``, ``adult``, ``compas`` or ``stopping-time``.
    folder
        Where finished pieces are kept, so that an interrupted run continues there.
    splits
        Random splits of the data; by default as many as the paper's.
    workers
        Processes to train and audit in.
    """
    if study not in STUDIES:
        known = ", ".join(STUDIES)
        hint = nearest(study, STUDIES)
        raise InvalidSettings(f"There is no study {study!r} (there are: {known}).{hint}")
    splits = STUDIES[study] if splits is None else splits
    for name, value in (("splits", splits), ("workers", workers)):
        if value < 1:
            raise InvalidSettings(f"--{name} is {value}; there must be at least one.")
    make_folder(folder)
    if study == "simulation":
        return reproduce_simulation(progress)
    how = {"splits": splits, "workers": workers, "progress": progress}
    if study == "stopping-time":
        return reproduce_times(ADULT, folder, **how)
    return reproduce_study(ADULT if study == "adult" else COMPAS, folder, **how)


def reproduce_simulation(progress: Progress | None = None) -> Reproduction:
    """Compute the heat maps of Figure 1 in three variants."""
    grids = simulation.all_grids(progress)
    return Reproduction(
        study="simulation",
        title="Simulation (Section 4.1, Figure 1)",
        tables=(simulation.counts_table(grids),),
        results=simulation.to_json(grids),
        figures={"heat_maps": figures.heat_maps(grids)},
    )


def reproduce_study(study: Study, folder: Path, **how: Any) -> Reproduction:
    """Train and audit every method of a study on random splits."""
    rows = TypeAdapter(list[Row]).validate_python(_each(run_one, study, folder, **how))
    return Reproduction(
        study=study.name,
        title=study.title,
        tables=(
            summary.paper_table(study.name, study.title, rows),
            summary.inference_table(study.title, rows),
            summary.shuffled_table(study.title, rows),
            summary.paired_table(study.title, rows),
        ),
        results={"settings": study.settings(), **summary.study_json(study.name, rows)},
        figures={"statistics": figures.split_dots(rows, summary.BESIDE.get(study.name, {}))},
    )


def reproduce_times(study: Study, folder: Path, **how: Any) -> Reproduction:
    """Follow the statistic of every method through time."""
    paths = _each(run_path, study, folder, **how)
    return Reproduction(
        study="stopping-time",
        title="Stopping time (Section 4.2, Figure 2)",
        tables=(times_table(paths),),
        results={"settings": {**study.settings(), "times": TIMES}, "rows": paths},
        figures={"stopping_time": figures.time_paths(paths)},
    )


def _each(
    run: Any,
    study: Study,
    folder: Path,
    *,
    splits: int,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Any]:
    """Run every model on every split, those in the folder's journal excepted."""
    models = study.methods
    if "Reductions" in models:
        import_optional("fairlearn.reductions", "fairlearn", "Reductions")  # now, not after an hour
    study.split(0)  # fetched once, before several processes ask for it
    jobs = {
        study.piece(name, split): functools.partial(run, study, name, split)
        for split in range(splits)
        # The longest first: no worker is left alone with it at the end.
        for name in reversed(list(models))
    }
    words = f"{study.title}: models trained and audited"
    journal = FinishedJobs(folder / "journal.jsonl", f"{run.__name__} {study.key}")
    found = run_jobs(jobs, journal, workers=workers, words=words, progress=progress)
    return [found[study.piece(name, split)] for split in range(splits) for name in models]
