"""`python -m osamd` is the command `osamd`."""

import sys

from osamd.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
