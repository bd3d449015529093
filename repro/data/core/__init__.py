"""What all data share: datamodules, batches, shares of ranks."""
