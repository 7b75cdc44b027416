"""`python -m kshot` is the command `kshot`."""

from kshot.cli import main

if __name__ == "__main__":
    main()
