"""Pure checkers over a saved run; ``catalogue`` lists them."""
