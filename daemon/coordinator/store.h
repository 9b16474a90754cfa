// What the coordinator remembers over its own death (Store), and the Outbox, which lets nothing of
// the run take effect before it is remembered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "daemon/env/env.h"
#include "membership/run/run.h"
#include "membership/run/run_output.h"

namespace atolld {

// Law: once Apply has returned OK the update is durable, all of it; if it fails nothing of it is.
// Blocking: called from the pool, one call at a time (Load before the loop runs).
class Store {
 public:
  virtual ~Store() = default;

  // All that was stored but headers, which ReadHeaders tells; a new store gives a StoredRun without
  // a spec. DATA_LOSS: what is there cannot be read.
  virtual absl::StatusOr<StoredRun> Load() = 0;

  // RESOURCE_EXHAUSTED: no space; the same update may be applied again later. ABORTED: another
  // coordinator leads the run by now; whoever owns the store ends this one's part. Other errors:
  // the store is not to be trusted any longer.
  virtual absl::Status Apply(const RunUpdate& update) = 0;

  // The first ones of these, in their order: how many are durable now. At least one is, or it fails
  // as Apply does, and none is. A store for which several cost no more than one takes them
  // together.
  virtual absl::StatusOr<size_t> ApplyFirst(absl::Span<const RunUpdate* const> updates);

  // At most `limit` headers from version `first` on, ascending.
  virtual absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first,
                                                                   uint32_t limit) = 0;

  // Where it lies, for messages.
  virtual std::string where() const = 0;
};

// A Store without a disk, for tests and simulations. What it holds outlives it, as a disk would.
class MemoryStore final : public Store {
 public:
  struct Disk {
    StoredRun run;       // with all headers
    absl::Status fails;  // what Apply returns, if not OK
    uint64_t updates = 0;
  };

  explicit MemoryStore(std::shared_ptr<Disk> disk) : disk_(std::move(disk)) {}

  absl::StatusOr<StoredRun> Load() override;
  absl::Status Apply(const RunUpdate& update) override;
  absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first, uint32_t limit) override;
  std::string where() const override { return "memory"; }

 private:
  const std::shared_ptr<Disk> disk_;
};

// Makes each of the run's outputs durable, then lets it take effect, strictly in order. Those that
// have come while the store was at work are stored together.
//
// Law: nothing of an output reaches a peer before its update is durable, and no later output
// overtakes an earlier one. A full disk holds everything back, and is tried again every second; a
// store that another coordinator has taken over holds everything back for good; any other failure
// of the store ends the process: what was promised could no longer be kept. Loop thread; the store
// runs on the pool.
class Outbox {
 public:
  using Deliver = std::function<void(const RunOutput&)>;

  Outbox(Env env, std::shared_ptr<Store> store, Deliver deliver);

  // Never delivers from inside the call if there is something to store. `done` runs right after the
  // output has taken effect.
  void Push(RunOutput output, Task done = nullptr);

  // Runs `work` on the pool between two updates, so that it may use the store, then `done` on the
  // loop.
  void WithStore(Task work, Task done) { queue_.Run(std::move(work), std::move(done)); }

  // Why nothing takes effect at present; empty while all is well.
  const std::string& stalled() const { return stalled_; }

 private:
  struct Item {
    std::shared_ptr<const RunOutput> output;  // a job of the pool may outlive this object
    Task done;
    bool durable = false;
  };

  void Pump();
  void Persist();
  void OnPersisted(const absl::StatusOr<size_t>& applied);

  Env env_;
  const std::shared_ptr<Store> store_;
  const Deliver deliver_;
  SerialQueue queue_;
  std::deque<Item> items_;
  bool storing_ = false;
  bool pumping_ = false;
  std::string stalled_;
  CallbackGuard guard_;
};

}  // namespace atolld
