"""Iceberg: catalogs, tables, stamps, guarded commits, staging, changes, the epoch log."""
