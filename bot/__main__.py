"""`python -m bot`."""

import sys

try:
    from bot.cli import main

    main()
except KeyboardInterrupt:  # before anything was begun
    sys.exit(130)
