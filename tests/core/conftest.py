"""Property tests measure no time: machines differ, and a slow one is no failure."""

from hypothesis import settings

settings.register_profile("gyre", deadline=None)
settings.load_profile("gyre")
