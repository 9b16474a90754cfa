// OwnerControl: what the owner of a machine has a say in - it keeps the owner's orders and limits,
// looks at the machine every few seconds, says what the peer may do, and serves Machine
// (machine.proto) to `atoll status`, `pause`, `finish`, `resume` and `limits`.
//
//   DIR/limits.toml    what `limits set` has changed (limit_book.h)
//   DIR/owner.state    the order that holds, and what this peer gave: a line each
//
// An order is answered when it is on the disk. Loop thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "atoll/v1/machine.pb.h"
#include "daemon/env/env.h"
#include "daemon/machine/availability.h"
#include "daemon/machine/limit_book.h"
#include "daemon/machine/owner_limits.h"
#include "daemon/machine/sensors.h"

namespace atolld {

inline constexpr char kOwnerStateFile[] = "owner.state";
inline constexpr char kMachineSocket[] = "machine.sock";

struct BytesToday {  // since midnight, local time
  uint64_t sent = 0;
  uint64_t received = 0;
};

// What DIR/owner.state says. Pure.
struct OwnerState {
  OwnerOrder order;
  uint64_t rounds = 0;  // contributed and committed
  uint64_t tokens = 0;
  std::string day;  // of what follows, "2026-11-26"
  double train_seconds = 0;
  double trace_began = 0;  // when the trace's second 0 was, Unix time; 0: it follows none

  std::string Text() const;
  // INVALID_ARGUMENT names the line.
  static absl::StatusOr<OwnerState> Parse(absl::string_view text);
};

// `limits set` for a peer that does not run: all of the values, or none, go into DIR/limits.toml,
// where its daemon finds them at its next start. Returns what will hold then, over `configured`.
// INVALID_ARGUMENT names the limit that is wrong; FAILED_PRECONDITION: the file is damaged. The
// caller holds the folder's lock, since a daemon would write over it. Blocking.
absl::StatusOr<LimitBook> KeepLimits(Files& files, const std::string& dir,
                                     const MachineConfig& configured, absl::TimeZone zone,
                                     absl::Span<const std::pair<std::string, std::string>> values);

class OwnerControl {
 public:
  struct Events {
    // At each change, and once before Start returns.
    std::function<void(const MachineVerdict&)> on_verdict;
    // The owner wants the round under way finished, or (false) not any more: OnRoundFinished is
    // called when nothing of this peer is in a round.
    std::function<void(bool wanted)> finish_round;
    // What the peer knows of itself, into an answer.
    std::function<void(v1::MachineStatus*)> tell;
    // May be empty: nothing is counted.
    std::function<BytesToday()> bytes_today;
    // After one has changed, bytes a second; 0: none. May be empty.
    std::function<void(uint64_t up, uint64_t down)> on_caps;
    // The same for the worker's share of the processors, in per cent; 0: none.
    std::function<void(double per_cent)> on_processors;
  };

  // `sensors` outlives it.
  OwnerControl(Env env, std::string dir, const MachineConfig& configured, Sensors& sensors,
               absl::TimeZone zone, Events events);

  // Reads both files. FAILED_PRECONDITION: one of them is damaged, and how. Blocking; before Start.
  absl::Status Load();
  const MachineConfig& limits() const { return book_.limits(); }
  // The config was read again: its [machine] holds from now on wherever `limits set` has not
  // changed it. INVALID_ARGUMENT: hours that are none; nothing has changed then. After Start.
  absl::Status Configure(const MachineConfig& configured);
  // The peer is there when its trace says so, which began at `began`; InfinitePast: when it was
  // first followed, which a restart remembers. After Load, before Start.
  void Follow(TraceFollower trace, absl::Time began);
  // When a trace began that others follow, by the same rule; it is kept.
  absl::Time BeginTrace(absl::Time began);
  // Looks from now on.
  void Start();

  // Takes a call of Machine; refuses others.
  void Accept(const std::string& method, std::unique_ptr<Call> call);

  void OnRoundFinished();
  // An entry with this much of the peer's own was committed.
  void OnContributed(uint64_t tokens);

 private:
  void Look();
  void Decide();
  void Schedule();
  void CountTraining(const v1::PeerProgress& progress);
  void SetOrder(const OwnerOrder& order);
  // Writes what has changed; `done` when it is on the disk.
  void Save(Task done);
  void SaveSoon();
  absl::Status Order(const std::string& method, const Frame& question);
  absl::Status SetLimits(const v1::SetLimitsRequest& request);
  absl::Status Take(LimitBook changed);
  void OnQuestion(uint64_t id, const Frame& question);
  v1::MachineStatus Status();

  struct Asked {
    std::string method;
    std::unique_ptr<Call> call;
  };

  const Env env_;
  const std::string dir_;
  Sensors& sensors_;
  const absl::TimeZone zone_;
  const Events events_;
  const absl::Time started_;

  // Loop thread.
  std::optional<TraceFollower> trace_;  // [availability]
  LimitBook book_;
  OwnerLimits limits_;
  OwnerState state_;
  MachineView view_;
  MachineVerdict verdict_;
  bool decided_ = false;
  bool reading_ = false;
  bool limits_changed_ = false;  // since they were written
  bool saving_soon_ = false;
  double train_seconds_ = 0;  // as the peer told them last
  absl::Time idle_since_ = absl::InfinitePast();
  Executor::TimerId timer_ = 0;
  std::map<uint64_t, Asked> asked_;
  uint64_t next_call_ = 0;
  SerialQueue writes_;
  CallbackGuard guard_;
};

}  // namespace atolld
