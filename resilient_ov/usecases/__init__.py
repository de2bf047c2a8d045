"""What the product does, as flows of steps that have no colour and no I/O of their own."""
