"""The subcommands of ``readtrace``."""
