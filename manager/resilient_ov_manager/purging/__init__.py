"""Erasing a person: on the server, and in the state of the gateways."""
