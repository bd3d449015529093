"""What became of submitted runs."""
