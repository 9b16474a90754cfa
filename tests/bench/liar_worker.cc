// atoll-liar-worker: the worker of a benchmark, which lies for the peers that ATOLL_LIARS names
// ("peer-7,peer-8"): it hands over the negative of ten times what it learned. For all other peers
// it is atoll-worker.
//
// It stands between the daemon's stream and the session of the true worker: what was learned is in
// the shared memory when the session reports the boundary, and is changed there.
#include <sys/prctl.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "compression/base/status_macros.h"
#include "worker/base/flags.h"
#include "worker/base/grpc_link.h"
#include "worker/base/learner.h"
#include "worker/base/link.h"
#include "worker/base/session.h"
#include "worker/program/model_learner.h"
#include "worker/training/math_library.h"

namespace atolld {
namespace {

constexpr float kLie = -10.0f;

// Returns true if the peer of the worker at this socket is named: a local run keeps the socket in
// the peer's folder.
bool Lies(const std::string& socket) {
  const char* const liars = std::getenv("ATOLL_LIARS");
  if (liars == nullptr) return false;
  for (const absl::string_view name : absl::StrSplit(liars, ',', absl::SkipEmpty())) {
    if (absl::StrContains(socket, absl::StrCat("/", name, "/"))) return true;
  }
  return false;
}

// The memory that the daemon named last. Safe to use from any thread.
class Mapped {
 public:
  void Note(const v1::MapMemory& map) {
    const absl::MutexLock lock(&mutex_);
    absl::StatusOr<std::unique_ptr<Slots>> slots = Slots::Map(map, map.elements());
    slots_ = slots.ok() ? *std::move(slots) : nullptr;
  }
  void Spoil() {
    const absl::MutexLock lock(&mutex_);
    if (slots_ == nullptr) return;
    for (float& value : slots_->update()) value = value * kLie;
  }

 private:
  absl::Mutex mutex_;
  std::unique_ptr<Slots> slots_ ABSL_GUARDED_BY(mutex_);
};

class LyingOutbox final : public Outbox {
 public:
  LyingOutbox(Outbox& next, Mapped& memory) : next_(next), memory_(memory) {}
  bool Send(const v1::WorkerMessage& message) override {
    if (message.has_boundary()) memory_.Spoil();
    return next_.Send(message);
  }

 private:
  Outbox& next_;
  Mapped& memory_;
};

absl::Status Serve(const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const Flags flags, Flags::Parse(arguments, {"socket"}));
  ASSIGN_OR_RETURN(const std::string socket, flags.Text("socket"));
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Inbox heard;
  Inbox inbox;
  const Termination termination(inbox);
  WorkerEnv env;
  env.log = [](const std::string& line) { std::cerr << line << std::endl; };
  ModelLearner::Options options;
  options.set_threads = SetMathThreads;
  options.math = ProbeMath();
  ASSIGN_OR_RETURN(std::unique_ptr<GrpcLink> link, GrpcLink::Dial(socket, heard));
  Mapped memory;
  std::thread pump([&] {
    for (bool open = true; open;) {
      Event event = heard.Take();
      open = event.kind != Event::Kind::kClosed;
      if (event.message.has_map_memory()) memory.Note(event.message.map_memory());
      inbox.Push(std::move(event));
    }
  });
  ModelLearner learner(env, std::move(options));
  LyingOutbox lying(*link, memory);
  Outbox& outbox = Lies(socket) ? static_cast<Outbox&>(lying) : *link;
  const absl::Status status = Session(inbox, outbox, learner, env).Run();
  link.reset();  // what it says last ends the pump
  pump.join();
  return status;
}

}  // namespace
}  // namespace atolld

int main(int argc, char** argv) {
  atolld::ChooseMathKernel(argv);
  const absl::Status status = atolld::Serve(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  std::cerr << "atoll-liar-worker: " << status.message() << "\n";
  return 1;
}
