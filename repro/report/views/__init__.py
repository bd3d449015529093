"""The content of the generated files: documents and rows, made from the evidence."""
