"""An unattended bot that plays the puzzle Sunpleat and keeps a journal of it."""

__version__ = "1.0.0"
