"""Run the command line as `python -m sparkport`."""

from sparkport.cli import main

main()
