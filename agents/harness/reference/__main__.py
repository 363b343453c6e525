"""`python -m agents.harness.reference`: do the task that the environment names."""

import os
import sys

from agents.harness.reference.program import main

if __name__ == "__main__":
    sys.exit(main(os.environ))
