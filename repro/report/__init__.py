"""From records and published numbers to tables, plots and one page. Never imports torch."""
