"""Results of `mpdccp lab run` and `mpdccp lab sweep` as pandas data frames; needs pandas (`pip install mpdccp[lab]`).

    from mpdccp import lab

    lab.runs("lab-out/paper-multipath-udp").groupby("label")["app_p95_ms"].median()
    lab.packets("lab-out/paper-multipath-udp", "ccid5")["app_latency_ms"].describe()

The columns are those of the files: docs/summary.md and docs/sweeps.md name them.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

__all__ = ["packets", "runs", "series", "sweep"]


def _pandas() -> Any:
    import pandas  # type: ignore[import-untyped]

    return pandas


def _summary(directory: str | PathLike[str]) -> dict[str, Any]:
    file = Path(directory) / "summary.json"
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist; give an output directory of `mpdccp lab run`")
    summary: dict[str, Any] = json.loads(file.read_text())
    return summary


def runs(directory: str | PathLike[str]) -> Any:
    """One row for each run: cell, label, repeat, and its metrics."""
    return _pandas().DataFrame(
        [
            {"cell": run["cell"], "label": run["label"], "repeat": run["repeat"], **run["metrics"]}
            for run in _summary(directory)["runs"]
        ]
    )


def _run(directory: str | PathLike[str], label: str, cell: str | None, repeat: int) -> dict[str, Any]:
    every = _summary(directory)["runs"]
    labels = sorted({run["label"] for run in every})
    if label not in labels:
        raise KeyError(f"unknown variant {label!r}; expected one of: {', '.join(labels)}")
    for run in every:
        if run["label"] == label and run["repeat"] == repeat and (cell is None or str(run["cell"]) == cell):
            found: dict[str, Any] = run
            return found
    raise KeyError(f"no run {repeat} of {label!r}" + ("" if cell is None else f" in the cell {cell!r}"))


def series(
    directory: str | PathLike[str], label: str, *, cell: str | None = None, repeat: int = 0
) -> dict[str, Any]:
    """All series of a run, by file name. Default: the first cell and the first repeat."""
    run = _run(directory, label, cell, repeat)
    folder = Path(directory) / "series" / f"{run['cell']}_{label}_{repeat}"
    return {file.stem: _pandas().read_csv(file) for file in sorted(folder.glob("*.csv"))}


def packets(
    directory: str | PathLike[str],
    label: str,
    flow: str | None = None,
    *,
    cell: str | None = None,
    repeat: int = 0,
) -> Any:
    """The packets of a run's flow; default: the first flow."""
    run = _run(directory, label, cell, repeat)
    flows = [each["name"] for each in run["flows"]]
    name = flows[0] if flow is None else flow
    if name not in flows:
        raise KeyError(f"unknown flow {name!r}; expected one of: {', '.join(flows)}")
    folder = Path(directory) / "series" / f"{run['cell']}_{label}_{repeat}"
    return _pandas().read_csv(folder / f"packets-{name}.csv")


def sweep(file: str | PathLike[str]) -> Any:
    """The rows of a sweep: the file that `mpdccp lab sweep --out` wrote, or its directory."""
    path = Path(file)
    return _pandas().read_csv(path / "sweep.csv" if path.is_dir() else path)
