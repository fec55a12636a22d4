"""What the service tells of itself as numbers and traces."""
