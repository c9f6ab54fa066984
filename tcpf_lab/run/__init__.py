"""A choice of runs carried out, analysed and reported."""
