"""An experiment is a resolved recipe and a seed: build it, run it, resume it, record it."""

import repro.torchmetrics_import  # noqa: F401  before Lightning
