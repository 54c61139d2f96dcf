"""Nexmark: 23 queries over the persons, auctions and bids of an online auction, from Kafka into Iceberg."""
