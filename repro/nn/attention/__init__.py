"""One module or folder for each kind of attention."""
