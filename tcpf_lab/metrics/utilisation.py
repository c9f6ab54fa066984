"""How much of a link was used."""

from __future__ import annotations


def utilisation(frame_bytes: int, rate_bits_per_s: float, seconds: float) -> float:
    """Share of a link's capacity that frames took.

    .. math:: u = 8 B / (C t)

    Parameters
    ----------
    frame_bytes : int
        Bytes that left, counted as the link's shaper counts them (with the Ethernet header).
    rate_bits_per_s : float
        Capacity.
    seconds : float
        Time.

    Returns
    -------
    float
        1 for a full link; a little more is possible over a short time, through the shaper's burst.

    Raises
    ------
    ValueError
        If capacity or time is not positive.

    Examples
    --------
    >>> utilisation(1_250_000, 10e6, 2.0)
    0.5
    """
    if rate_bits_per_s <= 0 or seconds <= 0:
        raise ValueError("without capacity or without time utilisation is undefined")
    return 8.0 * frame_bytes / (rate_bits_per_s * seconds)
