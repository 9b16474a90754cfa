// Kernel fitness: finds out whether this machine lets a daemon do its work, by trying it as the
// daemon does it. It starts a child process, watches it and passes memory to it, and starts as many
// threads as a daemon and its worker have.
//
// Containers, batch systems and sandboxes forbid or limit some of this. Everything that was started
// has ended when CheckKernel returns. CheckKernel blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/fitness/finding.h"

namespace atolld {

// Returns the number of threads of a peer and its worker, with some to spare.
uint32_t ThreadsOfPeer(uint32_t worker_threads);

// Returns two findings: one says whether a worker can be started and get memory, the other whether
// this many more threads can run.
std::vector<Finding> CheckKernel(uint32_t threads);

}  // namespace atolld
