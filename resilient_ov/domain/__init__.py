"""The rules: what is stored, who owns it, what an outcome means. Pure."""
