"""An unattended bot that plays the puzzle Sunpleat and keeps a journal of it."""

__version__ = "2.0.0"
