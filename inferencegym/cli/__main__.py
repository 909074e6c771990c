"""``python -m inferencegym.cli`` is the command-line tool without its installed script."""

from inferencegym.cli import main

main()
