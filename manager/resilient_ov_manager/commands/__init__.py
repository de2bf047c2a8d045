"""The built-in commands of `resilient-ov`, one file each."""
