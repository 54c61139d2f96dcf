"""The doors of the engine: what clients that are not this process talk to."""
