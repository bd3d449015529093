"""The ``repro`` command: a file for each family of verbs. Heavy imports happen inside the verbs."""
