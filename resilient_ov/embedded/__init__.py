"""An OpenViking-compatible server for development, demo and contract tests. Not for production."""
