"""sqllogictest files: text → records → statements to a server, whose answers are compared with what the file says.

The dialect is that of sqllogictest-rs, in which the suites of RisingWave and DataFusion are written. `parser` is pure,
`runner` speaks to anything that is a `Database`, `postgres` is the one that speaks PostgreSQL's protocol.

    python -m icestream.dev.slt [--url URL] FILES…
"""
