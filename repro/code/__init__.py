"""The code that a run uses: the version of this package, and the plugins of a project."""
