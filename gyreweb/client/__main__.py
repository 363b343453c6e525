"""`python -m gyreweb.client`: the command `gyre` where no script is installed."""

import sys

from .app import main

sys.exit(main())
