"""Programs that examine the project: accuracy, bench, faults, fuzz, stress (`./lab help`)."""
