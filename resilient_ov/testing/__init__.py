"""Test doubles shipped as product: a scripted server, a manual clock, fault scripts."""
