"""Tables of findings: rows and columns of each kind of table, and their output."""
