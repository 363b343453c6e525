#!/usr/bin/env python
"""Django's command line for Gyre: `python manage.py help` lists the commands."""

import sys

from gyreweb.commandline import main

if __name__ == "__main__":
    sys.exit(main(sys.argv))
