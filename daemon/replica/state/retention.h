// Retention: keeps the log and snapshots of a peer's replica within its policy while the peer
// continues.
//
// Laws: one pass runs at a time, in slices on the pool, so that no pool thread is held for long.
// Between slices the pass rests, so that it takes a bounded share of one processor: a quarter, or a
// sixteenth while the peer exchanges. It does not rest while the byte limit is exceeded or while
// its owner waits for it. A failed pass is tried again after 1, 2, 4 ... further versions, or when
// the owner calls TryAgain. Used on the loop thread.
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
    // Called when a pass has ended, successfully or not, and the faults that it found were logged.
    // The owner must then compact the log (Replica::CompactLog with `header_allowance`). DATA_LOSS
    // means that no snapshot can be made from the disk any more: the owner must save the state in
    // memory (Replica::SaveState) once that state is confirmed, or once a second try has failed.
    // ABORTED means that the disk and the memory lead to different states, and it is not known yet
    // which one is right.
    std::function<void(const absl::Status& status, const RetentionReport& report,
                       uint64_t header_allowance)>
        on_pass;
  };

  Retention(Env env, std::string dir, const RetentionPolicy& policy, Events events);
  ~Retention();  // The pool finishes a running slice, and no event is called.

  // Called when the replica is at `version` and its state has the digest `state`. Begins a pass
  // when the pass under way, if any, has ended.
  void Advance(uint64_t version, const Digest& state);

  // Tells whether the peer's own exchange is under way.
  void SetBusy(bool busy) { busy_ = busy; }

  bool idle() const { return pass_ == nullptr; }

  // failing() returns true if the last pass failed. If no new version comes within RetryPause(),
  // the owner should call TryAgain and Advance, because a disk may become readable, or have room
  // again, while the run makes no progress.
  bool failing() const { return failures_ > 0; }
  absl::Duration RetryPause() const;
  void TryAgain() { not_before_ = 0; }

  // Called when the owner waits for the pass under way. Continues the pass at once, without further
  // rests.
  void Hurry();

  // The directory's offer at the end of the last pass, and the entries that were committed since
  // then.
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
  bool hurry_ = false;                     // True if the pass under way must not rest.
  std::optional<Executor::TimerId> rest_;  // The timer of the rest between two slices.
  std::shared_ptr<RetentionPass> pass_;    // Null if no pass is under way.
  uint64_t version_ = 0;  // The version of the pass under way, or of the last pass.
  std::optional<Standing> next_;
  uint64_t failures_ = 0;  // The number of failed passes in a row.
  uint64_t not_before_ = 0;
  // The version at which the disk and the memory led to different states, if they did.
  std::optional<uint64_t> in_doubt_;
  bool limit_told_ = false;
  v1::Offer offer_;
  CallbackGuard guard_;
};

}  // namespace atolld
