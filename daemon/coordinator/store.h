// Store keeps the run durably, so that it survives the coordinator's process. The Outbox lets an
// output of the run take effect only after it has been stored.
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

// Law: once Apply has returned OK, the whole update is durable; if it fails, no part of the update
// is. Its calls block. They run on the pool, one at a time, except for Load, which is called before
// the loop runs.
class Store {
 public:
  virtual ~Store() = default;

  // Returns everything that was stored except the headers, which ReadHeaders returns. A new store
  // returns a StoredRun without a spec. Fails with DATA_LOSS if the stored data cannot be read.
  virtual absl::StatusOr<StoredRun> Load() = 0;

  // Fails with RESOURCE_EXHAUSTED if there is no space; the same update may be applied again later.
  // Fails with ABORTED if another coordinator has become the leader of the run; the owner of the
  // store must then stop acting as the coordinator. After any other error the store must not be
  // trusted any longer.
  virtual absl::Status Apply(const RunUpdate& update) = 0;

  // Applies one or more of these updates, from the first on and in order, and returns how many it
  // applied; these are durable. If the first update cannot be applied, fails with the error of
  // Apply, and no update is durable. A store that can apply several at the cost of one applies them
  // together.
  virtual absl::StatusOr<size_t> ApplyFirst(absl::Span<const RunUpdate* const> updates);

  // Returns at most `limit` headers from version `first` on, by ascending version.
  virtual absl::StatusOr<std::vector<v1::EntryHeader>> ReadHeaders(uint64_t first,
                                                                   uint32_t limit) = 0;

  // Returns the store's location, for messages.
  virtual std::string where() const = 0;
};

// A Store without a disk, for tests and simulations. Its contents are in `disk`, which may outlive
// it as a real disk would.
class MemoryStore final : public Store {
 public:
  struct Disk {
    StoredRun run;       // the stored run, with all headers
    absl::Status fails;  // the error that Apply returns; OK means that Apply works
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

// Makes each output of the run durable and then lets it take effect, strictly in order. Outputs
// that arrive while the store is busy are stored together.
//
// Law: no part of an output reaches a peer before its update is durable, and no output overtakes an
// earlier one. While the disk is full, all outputs wait, and the store is tried again every second.
// Once another coordinator has taken over the store, no output takes effect any more. Any other
// failure of the store ends the process, because promises already made could no longer be kept.
// Used on the loop thread; the store runs on the pool.
class Outbox {
 public:
  using Deliver = std::function<void(const RunOutput&)>;

  Outbox(Env env, std::shared_ptr<Store> store, Deliver deliver);

  // Queues an output. It is never delivered from inside this call if it has something to store.
  // `done` runs immediately after the output has taken effect.
  void Push(RunOutput output, Task done = nullptr);

  // Stores `nothing`, an update that changes nothing, after everything that was pushed before, and
  // passes the result to `told`. OK means that the store takes updates now. Otherwise the result is
  // RESOURCE_EXHAUSTED or ABORTED; on a full disk it comes within a second, when the store is tried
  // again. The update itself is not tried again, because a caller must learn immediately, before
  // anything is decided, that its request cannot be stored. `told` runs on the loop, never inside
  // this call.
  void Try(RunUpdate nothing, std::function<void(absl::Status)> told);

  // Runs `work` on the pool while no update is being stored, so that it may use the store, and then
  // runs `done` on the loop.
  void WithStore(Task work, Task done) { queue_.Run(std::move(work), std::move(done)); }

  // Returns the reason why outputs do not take effect at present; empty if they do.
  const std::string& stalled() const { return stalled_; }

 private:
  struct Item {
    // It is shared because a job on the pool may outlive this object.
    std::shared_ptr<const RunOutput> output;
    Task done;
    bool durable = false;
    std::function<void(absl::Status)> told{};  // set only by Try
  };

  void Pump();
  void Persist();
  void EndTries(const absl::Status& why);
  void OnPersisted(const absl::StatusOr<size_t>& applied);

  Env env_;
  const std::shared_ptr<Store> store_;
  const Deliver deliver_;
  SerialQueue queue_;
  std::deque<Item> items_;
  bool storing_ = false;
  bool pumping_ = false;
  bool closed_ = false;  // true once nothing is stored any more
  std::string stalled_;
  CallbackGuard guard_;
};

}  // namespace atolld
