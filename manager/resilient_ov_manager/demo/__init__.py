"""The demonstration behind `resilient-ov demo`: a talk, a server that dies, and the proof."""
