"""Driven adapters: where the flows touch the network, the disk, the clock and threads."""
