"""``python -m server.bench``."""

from server.bench.main import main

if __name__ == "__main__":
    main()
