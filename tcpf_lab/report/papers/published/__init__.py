"""Whether the published tables are reproduced, and whether the thesis' conclusions are right."""
