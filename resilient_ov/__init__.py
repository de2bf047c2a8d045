"""resilient-ov: memory over an OpenViking server that stays healthy when the server does not."""
