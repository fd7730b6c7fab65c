"""Tables of findings: one module per kind of rows and columns, one that writes them."""
