"""Objects at work: the Spark session, feeds, targets, epochs, recovery."""
