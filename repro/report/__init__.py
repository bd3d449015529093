"""Makes tables, plots and one page from records and published numbers. Never imports torch."""
