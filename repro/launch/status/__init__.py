"""The state of submitted runs: ledger, queue, logs."""
