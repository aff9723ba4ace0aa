"""MAP instances with known optima: bounds, energies and proofs of every solver.

    python tests/benchmarks/maps.py --data ../shared/data [--solvers auto,exact,...] [--time-limit
    20] [--only SUBSTRING]

Prints one line per instance and solver, and the counts: for every solver that claims a bound,
bound <= known optimum <= energy; how many optima were reached, how many were proved.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import gmlearn as gm


def instances(data: Path, only: str):
    with open(data / "maps" / "index.csv") as stream:
        for row in csv.DictReader(stream):
            if only in row["file"]:
                yield row


def run(row: dict, data: Path, solver: str, time_limit: float):
    path = data / "maps" / row["file"]
    evidence = data / "maps" / row["evidence"] if row["evidence"] else None
    crf = gm.read(path, evidence=evidence)
    start = time.perf_counter()
    result = gm.solve(crf, solver=solver, time_limit=time_limit)
    return result, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--solvers", default="auto")
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    for solver in args.solvers.split(","):
        reached = proved = tight = tight_proved = proved_rows = wrong = refused = 0
        for row in instances(args.data, args.only):
            optimum, tolerance = float(row["known_optimum"]), float(row["tolerance"]) + 1e-9
            try:
                result, seconds = run(row, args.data, solver, args.time_limit)
            except gm.SolverRefusal as error:
                refused += 1
                print(
                    f"{solver:17s} {row['file'][:34]:34s} refused: {str(error)[-70:]}", flush=True
                )
                continue
            is_proved = row["optimum_status"] == "proved"
            is_tight = (
                is_proved
                and row["local_lp_bound"]
                and abs(float(row["local_lp_bound"]) - optimum) < 1e-6
            )
            # an open instance may well be improved; a proved one may not
            ok = result.bound <= optimum + tolerance and (
                result.energy >= optimum - tolerance or not is_proved
            )
            hit, proof = result.energy <= optimum + tolerance, result.gap <= tolerance
            wrong += not ok
            proved_rows += is_proved
            reached += is_proved and hit
            proved += is_proved and proof
            tight += bool(is_tight)
            tight_proved += bool(is_tight and proof and hit)
            better = not is_proved and result.energy < optimum - tolerance
            marks = {
                "WRONG": not ok,
                "better than best known": better,
                "optimum": hit,
                "proved": proof,
                "tight": is_tight,
            }
            flags = "".join(f" {name}" for name, on in marks.items() if on)
            print(
                f"{solver:17s} {row['file'][:34]:34s} known {optimum:14.6f} energy "
                f"{result.energy:14.6f} "
                f"bound {result.bound:14.6f} {seconds:6.1f} s{flags} [{result.reason[:60]}]",
                flush=True,
            )
        print(
            f"== {solver}: {wrong} wrong, {refused} refused; of {proved_rows} proved optima "
            f"{reached} reached, {proved} proved; "
            f"of {tight} LP-tight ones {tight_proved} proved",
            flush=True,
        )


if __name__ == "__main__":
    main()
