// Retention: keeps log and snapshots of a peer's replica within its policy, while the peer goes on.
//
// Laws: one pass at a time, in slices on the pool, so that no pool thread is held for long; between
// slices it rests, so that a snapshot takes a bounded share of one processor: a quarter, a
// sixteenth while the peer exchanges; it does not rest while its limit is passed, nor while its
// owner waits for it. A pass that failed is tried again after 1, 2, 4 ... further versions, or when
// its owner says so. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "daemon/env/env.h"
#include "daemon/replica/state/retention_pass.h"
#include "membership/history/digest.h"

namespace atolld {

class Retention {
 public:
  struct Events {
    // A pass is over, well or not; what it found to be wrong has been written to the log. The owner
    // then compacts the log (Replica::CompactLog with `header_allowance`). DATA_LOSS: no snapshot
    // can be made from the disk any more: the owner saves the live state (Replica::SaveState) once
    // that is confirmed, or once a second try has failed. ABORTED: disk and memory disagree, and it
    // is not known yet which of them is right.
    std::function<void(const absl::Status& status, const RetentionReport& report,
                       uint64_t header_allowance)>
        on_pass;
  };

  Retention(Env env, std::string dir, const RetentionPolicy& policy, Events events);
  ~Retention();  // a slice that runs is finished by the pool; nothing follows it

  // The replica stands at `version`, its state has the digest `state`. Begins a pass, after the one
  // that is under way.
  void Advance(uint64_t version, const Digest& state);

  // Whether the peer's own exchange is under way.
  void SetBusy(bool busy) { busy_ = busy; }

  bool idle() const { return pass_ == nullptr; }

  // Whether the last pass failed, and how long its owner waits for a further version before it
  // calls TryAgain and Advance: a disk can be read again, or has room again, also while the run
  // stands still.
  bool failing() const { return failures_ > 0; }
  absl::Duration RetryPause() const;
  void TryAgain() { not_before_ = 0; }

  // The owner waits for the pass that is under way: it goes on at once, and no longer rests.
  void Hurry();

  // What the directory offered at the end of the last pass; the entries committed since are offered
  // too.
  const v1::Offer& offer() const { return offer_; }

 private:
  struct Standing {
    uint64_t version;
    Digest state;
  };

  void Begin(const Standing& standing);
  void RunSlice();
  void AfterSlice(const absl::StatusOr<bool>& over, absl::Time began);
  void End(const absl::Status& status);
  absl::Status Judge(const absl::Status& status, BuildFault fault);
  void Tell(const absl::Status& status, const RetentionReport& report);

  const Env env_;
  const std::string dir_;
  const RetentionPolicy policy_;
  const Events events_;

  bool busy_ = false;
  bool hurry_ = false;                     // the pass that is under way
  std::optional<Executor::TimerId> rest_;  // of it, between two slices
  std::shared_ptr<RetentionPass> pass_;    // null: none is under way
  uint64_t version_ = 0;                   // of the pass that is under way, or was last
  std::optional<Standing> next_;
  uint64_t failures_ = 0;  // in a row
  uint64_t not_before_ = 0;
  std::optional<uint64_t> in_doubt_;  // version at which the disk led to another state than memory
  bool limit_told_ = false;
  v1::Offer offer_;
  CallbackGuard guard_;
};

}  // namespace atolld
