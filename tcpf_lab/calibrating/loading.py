"""A calibration for Python: what it has concluded, as frames."""

from __future__ import annotations

from pathlib import Path

from tcpf_lab.calibrating.ledger import CalibrationFiles
from tcpf_lab.errors import RequestError
from tcpf_lab.report.calibration.record import read_record
from tcpf_lab.report.frames.calibration import Calibrated
from tcpf_lab.spec.calibration import Calibration
from tcpf_lab.spec.load import find, load_any
from tcpf_lab.testbed import registry


def load_calibration(
    what: str | Path, testbed: str = "uml", results: str | Path = "results"
) -> Calibrated:
    """Load what a calibration has concluded.

    Parameters
    ----------
    what : str or Path
        A calibration as ``tcpf-lab calibrate`` takes it (``my_table.yaml``), whose results are
        looked for in `results`; or a directory with its ``calibration.json``, such as
        ``results/reference/lost_testbed``; or that file.
    testbed : str
        Name of the testbed, or the path of an inventory.
    results : str or Path
        The results directory.

    Returns
    -------
    Calibrated
        With frames `Calibrated.unknowns`, `Calibrated.cells`, `Calibrated.held_out` and more.

    Raises
    ------
    RequestError
        If it is no calibration, or has concluded nothing yet.
    """
    path = Path(what)
    if not path.is_dir() and path.suffix != ".json":
        read = load_any(find(str(what)))
        if not isinstance(read, Calibration):
            raise RequestError(
                f"is {read.noun}, not a calibration", where=str(what), hint="`tcpf_lab.load`"
            )
        path = CalibrationFiles(Path(results), read.name, registry.require(testbed)).root
    return Calibrated(read_record(path))
