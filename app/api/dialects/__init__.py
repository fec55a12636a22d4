"""The same service in the words of others (docs/dialects.md)."""
