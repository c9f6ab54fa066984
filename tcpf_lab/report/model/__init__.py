"""The RIO model's tables, figures and sentences beside those of its report, RR-4469."""
