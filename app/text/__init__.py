"""Cuts texts into tokens, long ones piece by piece."""
