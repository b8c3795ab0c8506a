"""How an op is declared and called: the record, the table, the families, and what runs them."""
