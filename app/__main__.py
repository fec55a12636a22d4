"""``python -m app`` is ``readtrace``."""

from app.cli import main

main()
