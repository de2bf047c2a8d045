"""The process that runs the product under traffic; the runner commands it through a pipe."""
