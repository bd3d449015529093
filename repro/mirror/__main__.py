"""``python -m repro.mirror FOLDER``."""

from repro.mirror.process import main

if __name__ == "__main__":
    main()
