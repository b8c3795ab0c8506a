"""`python -m ag_visual script.py`: see cli/script.py."""

import sys

from ag_visual.cli.script import main

sys.exit(main(sys.argv[1:]))
