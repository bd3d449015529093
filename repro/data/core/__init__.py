"""Common parts of all data: datamodules, batches, shares of ranks."""
