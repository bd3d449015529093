"""The results site: ``results/index.html``, readable without JavaScript; figures are files beside it.

The modules here compute what the page says; the templates, which escape every text, say it in HTML.
"""
