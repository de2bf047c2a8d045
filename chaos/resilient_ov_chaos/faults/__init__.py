"""One file per fault, its expectation beside it; ``catalogue`` lists them."""
