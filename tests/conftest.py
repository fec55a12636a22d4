"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# An example may take any time: how long it takes says more about the machine than about the code.
settings.register_profile("readtrace", deadline=None)
settings.load_profile("readtrace")
