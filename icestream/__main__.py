"""`python -m icestream` is the command line."""

from icestream.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
