"""`python -m bot`."""

import sys

try:
    from bot.cli import main

    main()
except KeyboardInterrupt:  # before anything was begun
    sys.exit(130)
except ModuleNotFoundError as exc:
    if (exc.name or "").partition(".")[0] == "bot":
        raise
    sys.stderr.write(
        f"sunpleat-bot: {sys.executable} has no package {exc.name}; "
        f"the one that has is called so: .venv/bin/python -m bot\n"
    )
    sys.exit(78)
