"""`python3 -m atoll_worker.huggingface` is atoll-hf-worker."""

import sys

from atoll_worker.huggingface.command import main

sys.exit(main())
