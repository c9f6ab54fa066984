"""Which settings of an experiment give the published numbers: design, emulator, search, profiles.

Statistics alone, of arrays. What an unknown sets in an experiment, and how a point is run, stands
elsewhere.
"""
