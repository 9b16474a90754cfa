#include "daemon/fitness/kernel_fitness.h"

#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "compression/base/status_macros.h"
#include "daemon/env/child_process.h"
#include "daemon/env/memory_file.h"
#include "daemon/env/posix_executor.h"

namespace atolld {
namespace {

using Weight = Finding::Weight;

// The threads of gRPC, the loop, the pool and the watchers: about 25 on a small machine, and a few
// more for each processor.
constexpr uint32_t kDaemonThreads = 40;

// A worker's threads besides those that compute: libtorch's and gRPC's.
constexpr uint32_t kWorkerThreads = 16;

// Enough to start a shell from a busy disk.
constexpr absl::Duration kChildPatience = absl::Seconds(10);

constexpr char kHandedOver[] = "handed over";

// Starts a shell in the way a worker is started, with a memory file that it reads.
absl::Status TryChild() {
  ASSIGN_OR_RETURN(const std::shared_ptr<MemoryFile> memory, MemoryFile::Make());
  if (pwrite(memory->fd(), kHandedOver, sizeof kHandedOver - 1, 0) < 0) {
    return absl::UnknownError("memory cannot be written");
  }
  PosixExecutor executor({1, 0});
  std::string said;
  bool ended = false;
  ExitStatus how;
  ChildProcess::Options options;
  options.arguments = {"/bin/sh", "-c",
                       absl::StrCat("cat <&", MemoryFile::kDescriptor, " && echo")};
  options.descriptors = {{memory->fd(), MemoryFile::kDescriptor}};
  options.death_signal = SIGKILL;
  ChildProcess::Events events;
  events.on_output_line = [&said](const std::string& line) { said += line; };
  events.on_exit = [&ended, &how](ExitStatus status) {
    how = status;
    ended = true;
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child,
                   ChildProcess::Spawn(executor, std::move(options), std::move(events)));
  if (!executor.RunUntil([&ended] { return ended; }, kChildPatience)) {
    return absl::DeadlineExceededError("the end of a child process is not reported");
  }
  if (!how.ok()) return absl::UnknownError(absl::StrCat("a child process ended: ", how.Text()));
  if (said == kHandedOver) return absl::OkStatus();
  return absl::UnknownError("a child process does not see the memory that it was handed");
}

// Returns how many of `wanted` threads could be started, all at the same time.
uint32_t StartThreads(uint32_t wanted) {
  std::mutex mutex;
  std::condition_variable over;
  bool done = false;
  std::vector<std::thread> threads;
  try {
    while (threads.size() < wanted) {
      threads.emplace_back([&] {
        std::unique_lock<std::mutex> lock(mutex);
        over.wait(lock, [&done] { return done; });
      });
    }
  } catch (const std::system_error&) {  // no more are allowed
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
  }
  over.notify_all();
  for (std::thread& one : threads) one.join();
  return static_cast<uint32_t>(threads.size());
}

}  // namespace

uint32_t ThreadsOfPeer(uint32_t worker_threads) {
  return kDaemonThreads + kWorkerThreads + 2 * worker_threads;
}

std::vector<Finding> CheckKernel(uint32_t threads) {
  std::vector<Finding> findings;
  const absl::Status child = TryChild();
  if (child.ok()) {
    findings.push_back({Weight::kGood, "processes: a worker can be started and handed memory"});
  } else {
    findings.push_back({Weight::kFatal,
                        absl::StrCat("processes: a worker cannot be started and handed memory: ",
                                     child.message(), "; the sandbox or container must allow it")});
  }
  const uint32_t started = StartThreads(threads);
  if (started == threads) {
    findings.push_back({Weight::kGood, absl::StrCat("threads: ", threads, " more can run")});
  } else {
    findings.push_back(
        {Weight::kFatal,
         absl::StrCat("threads: only ", started, " more can run, and a peer has up to ", threads,
                      "; raise the limit of the control group (pids.max: docker --pids-limit, "
                      "systemd TasksMax) or of the user (ulimit -u)")});
  }
  return findings;
}

}  // namespace atolld
