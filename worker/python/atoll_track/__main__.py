"""`python3 -m atoll_track` is atoll-track."""

import sys

from atoll_track.command import main

sys.exit(main())
