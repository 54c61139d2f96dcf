"""icestream."""
