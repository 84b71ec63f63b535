"""Entry point of `python -m evalscribe`."""

from evalscribe.cli import main

if __name__ == "__main__":
    main()
