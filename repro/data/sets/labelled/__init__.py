"""Text with labels, of one's own."""
