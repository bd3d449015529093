"""The results site: ``results/index.html``, one file that needs neither network nor JavaScript.

A text becomes markup in :mod:`repro.report.site.html` only, which escapes it; every other module here builds trees.
"""
