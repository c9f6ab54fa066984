"""Which settings of an experiment give the published numbers: design, emulator, search, profiles.

`space`, `target`, `emulator` and `profile` are statistics of arrays. `ledger` and `search` make the
points and their runs, `outcome` concludes from them, and `page` and `report` tell it to a reader.
"""
