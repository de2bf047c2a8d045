"""The DeerFlow memory manager on top of resilient_ov."""
