"""What a machine needs to run the engine: Java, the JVM packages, an embedded Kafka broker."""
