"""The doors of a running engine. The first one speaks PostgreSQL's wire protocol, version 3.0.

    listener    sockets, threads, limits; stops cleanly
    startup     TLS, authentication, cancel requests: up to the first query
    connection  messages of a client → answers, over a `backend.Session`

Nothing here knows how statements are run: a `backend.Backend` does that.
"""
