"""How far something has come, on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def run_progress(console: Console) -> Progress:
    """Return the progress display of runs: how many of how many, and how long still."""
    return _progress(console, MofNCompleteColumn())


def share_progress(console: Console) -> Progress:
    """Return the progress display of something of which a share is done, such as a build."""
    return _progress(console, TextColumn("{task.percentage:>3.0f} %"))


def _progress(console: Console, how_far: ProgressColumn) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        how_far,
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )
