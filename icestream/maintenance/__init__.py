"""Tables stay healthy: bounded metadata, few small files."""
