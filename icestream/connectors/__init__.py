"""The outside world: sources of repeatable ranges, sinks, formats."""
