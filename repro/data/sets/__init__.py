"""The data sets, a folder for each kind: facts, rows of the raw data, and datamodules."""
