"""From texts to documents, and from readings to answers that tell how the text was read."""
