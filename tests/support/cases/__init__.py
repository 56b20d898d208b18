"""Small files that once broke a tool of this trade, made on the spot; one module a kind."""
