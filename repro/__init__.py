"""Do the published results of eight Transformer papers hold, on your cluster, today?

The package is layered; imports point down only (tests/test_layering.py):
``cli → launch, report, experiment → tasks → models → nn`` and ``experiment → data``.
``errors, paths, recipe, record`` need no torch.
"""

__version__ = "0.1.0"
