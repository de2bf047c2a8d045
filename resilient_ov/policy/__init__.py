"""What is decided about a call: deadline, retry, breaker, budget, holds, switches. Pure."""
