"""Statements → objects, the store that keeps them, and the graph they form."""
