"""The modules under load on several processors, watched by KCSAN and lockdep."""
