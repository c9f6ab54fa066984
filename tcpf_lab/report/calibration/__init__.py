"""What a calibration found, as figures."""
