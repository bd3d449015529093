"""The results site: ``results/index.html``, readable without JavaScript; figures are files beside it.

The modules here compute the content; the templates, which escape every text, render it as HTML.
"""
