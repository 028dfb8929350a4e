"""How often the tests of `likewise` err: size, false certification, coverage and power.

    python benchmarks/calibration.py [--quick] [--json FILE] [--only LINE ...]

Prints a table of error rates on populations whose truth is known, with Monte-Carlo errors, and
ends with exit code 1 if a promise of the documentation is broken. A line is a function in
`calibration_lines`, marked with ``@line``.
"""

import argparse
import importlib
import json
import math
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

from calibration_lines import COLUMNS, LINES, Effort, Row, run

HEADER = f"{'method':<36}{'population':<40}{'n':>5}{'reps':>6}" + "".join(
    f"{title:>12}" for title in ("size", "false cert.", "upper miss", "coverage", "power")
)


def cell(row: Row, column: str) -> str:
    """Return a rate with its Monte-Carlo standard error."""
    rate = getattr(row, column)
    if math.isnan(rate):
        return ""
    broken = "!" if any(bar.column == column for bar in row.missed()) else ""
    error = f" ±{row.error(column):.3f}" if row.repetitions else ""
    return f"{broken}{rate:.3f}{error}".replace("0.", ".")


def text(row: Row) -> str:
    """Return a row of the printed table."""
    repetitions = str(row.repetitions) if row.repetitions else "exact"
    cells = "".join(f"{cell(row, column):>12}" for column in COLUMNS)
    return f"{row.method:<36}{row.population:<40}{row.n:>5}{repetitions:>6}{cells}  {row.note}"


def main() -> int:
    """Run the lines, print the table, and say whether every promise is kept."""
    folder = Path(__file__).parent / "calibration_lines"
    for module in sorted(folder.glob("[!_]*.py")):
        importlib.import_module(f"calibration_lines.{module.stem}")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, under a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows here too")
    parser.add_argument("--only", nargs="+", metavar="LINE", choices=sorted(LINES), default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--effort", type=float, default=1.0, metavar="SHARE", help="times as many samples"
    )
    options = parser.parse_args()
    effort = Effort.quick() if options.quick else Effort().times(options.effort)
    rows: list[Row] = []
    print(HEADER)
    for name in options.only or LINES:
        begun, worked = time.perf_counter(), time.process_time()
        for row in run([name], effort, options.seed):
            rows.append(row)
            print(text(row).rstrip(), flush=True)
        wall, cpu = time.perf_counter() - begun, time.process_time() - worked
        print(f"{name}: {wall:.0f} s, {cpu:.0f} s of work", file=sys.stderr)
    if options.json:
        options.json.write_text(json.dumps([row.to_dict() for row in rows], indent=1))
    broken = [f"{row.method}, {row.population}, n = {row.n}" for row in rows if row.missed()]
    print(f"\n{sum(bool(row.bars) for row in rows)} rows carry a promise; broken: {len(broken)}.")
    print("".join(f"  {words}\n" for words in broken), end="")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
