"""One file for each kind of attention; none imports another."""
