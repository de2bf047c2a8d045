"""Toxiproxy: typed toxics, the adapter, the server."""
