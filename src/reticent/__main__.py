"""`python -m reticent` is `reticent`."""

from reticent.cli.main import main

if __name__ == "__main__":
    main()
