"""Results as Markdown, LaTeX, lists and terminal tables."""
