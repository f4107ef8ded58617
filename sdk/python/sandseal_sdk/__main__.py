"""`python -m sandseal_sdk` is the `sandseal` command."""

from sandseal_sdk.cli import main

main()
