// OwnerControl carries out the decisions of a machine's owner. It keeps the owner's orders and
// limits, reads the machine's sensors every few seconds, decides what the peer may do, and serves
// the service Machine (machine.proto) to `atoll status`, `pause`, `finish`, `resume` and `limits`.
//
//   DIR/limits.toml    the changes that `limits set` has made (limit_book.h)
//   DIR/owner.state    the present order and the totals of this peer's contributions, one value a
//                      line
//
// Law: an order takes effect, and is answered, once it is on disk. If it cannot be written, the
// answer is the error, and the order never takes effect. Orders are handled one at a time, in the
// order of their arrival. The class OwnerControl has more than twenty members because it keeps the
// limits, the last readings of the sensors, the calls that wait for an answer, and the changes that
// are still to be written. Used on the loop thread.
#pragma once

#include <cstdint>
#include <deque>
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

struct BytesToday {  // The bytes since midnight, local time.
  uint64_t sent = 0;
  uint64_t received = 0;
};

// The contents of DIR/owner.state. Pure. May be used from any thread.
struct OwnerState {
  OwnerOrder order;
  uint64_t rounds = 0;  // The number of this peer's contributions that were committed.
  uint64_t tokens = 0;
  std::string day;  // The day to which train_seconds belongs, for example "2026-11-26".
  double train_seconds = 0;
  // The Unix time of the trace's second 0; 0 if the peer has never followed a trace.
  double trace_began = 0;

  std::string Text() const;
  // Reads the text of the file. Fails with INVALID_ARGUMENT if a line is wrong; the message names
  // the line.
  static absl::StatusOr<OwnerState> Parse(absl::string_view text);
};

// Carries out `limits set` for a peer whose daemon does not run: writes all of the values, or none,
// to DIR/limits.toml, which the daemon reads at its next start. Returns the limits that will then
// apply; `configured` has the limits of the config. Fails with INVALID_ARGUMENT if a limit is wrong
// (the message names it), and with FAILED_PRECONDITION if the file is damaged. The caller must hold
// the folder's lock, because a running daemon would overwrite the file. Blocks.
absl::StatusOr<LimitBook> KeepLimits(Files& files, const std::string& dir,
                                     const MachineConfig& configured, absl::TimeZone zone,
                                     absl::Span<const std::pair<std::string, std::string>> values);

class OwnerControl {
 public:
  struct Events {
    // Called whenever the verdict changes, and once before Start returns.
    std::function<void(const MachineVerdict&)> on_verdict;
    // Called with true when the owner has ordered the peer to finish the round under way, and with
    // false when the owner has withdrawn that order. The peer calls OnRoundFinished once it takes
    // part in no round.
    std::function<void(bool wanted)> finish_round;
    // Adds the peer's own information about itself to an answer.
    std::function<void(v1::MachineStatus*)> tell;
    // Returns today's traffic. May be empty; the traffic then counts as 0.
    std::function<BytesToday()> bytes_today;
    // Called after a cap of the transfer rate has changed. Caps are in bytes a second; 0 means no
    // cap. May be empty.
    std::function<void(uint64_t up, uint64_t down)> on_caps;
    // Called after the limit of the worker's share of the processors has changed. It is in per
    // cent; 0 means no limit. May be empty.
    std::function<void(double per_cent)> on_processors;
  };

  // `sensors` must outlive this object.
  OwnerControl(Env env, std::string dir, const MachineConfig& configured, Sensors& sensors,
               absl::TimeZone zone, Events events);

  // Reads both files. Fails with FAILED_PRECONDITION if one of them is damaged; the message says
  // what is wrong. Blocks. Call it before Start.
  absl::Status Load();
  const MachineConfig& limits() const { return book_.limits(); }
  // Call this when the config has been read again, after Start. The values of its section [machine]
  // apply from now on to all limits that `limits set` has not changed. Fails with INVALID_ARGUMENT,
  // and changes nothing, if the hours are invalid.
  absl::Status Configure(const MachineConfig& configured);
  // Makes the peer follow this trace: it is available only when the trace says so. `began` is the
  // time at which the trace began. InfinitePast means the time at which the peer first followed a
  // trace, which is stored and kept over restarts. Call it after Load and before Start.
  void Follow(TraceFollower trace, absl::Time began);
  // Returns the time at which the trace began, by the same rule for `began`, and stores it. For a
  // trace that another part of the daemon follows.
  absl::Time BeginTrace(absl::Time began);
  // Begins to read the sensors.
  void Start();

  // Serves a call of the service Machine. Refuses a call of any other method.
  void Accept(const std::string& method, std::unique_ptr<Call> call);

  void OnRoundFinished();
  // Called when an entry has been committed that includes this peer's update. `tokens` is the
  // number of the peer's own tokens in it.
  void OnContributed(uint64_t tokens);

 private:
  void Look();
  void Decide();
  void Schedule();
  void CountTraining(const v1::PeerProgress& progress);
  void SetOrder(const OwnerOrder& order);
  // A change that an order makes. Once `text` is in `file`, `apply` runs.
  struct Change {
    std::string file;  // The file's name in `dir_`; empty if nothing is to be stored.
    std::string text;
    Task apply;
  };
  // Writes the present state. Called after a contribution, and after an order that has changed
  // without a call of the owner.
  void Save();
  void SaveSoon();
  absl::StatusOr<Change> Prepare(const std::string& method, const Frame& question);
  absl::StatusOr<OwnerOrder> OrderIn(absl::string_view name, const Frame& question) const;
  absl::StatusOr<Change> PrepareLimits(const v1::SetLimitsRequest& request);
  absl::Status Take(LimitBook changed);
  void OnQuestion(uint64_t id, const Frame& question);
  void CarryOutNext();
  void Answer(uint64_t id, const absl::Status& status);
  v1::MachineStatus Status();

  struct Asked {
    std::string method;
    std::unique_ptr<Call> call;
  };
  struct Waiting {
    uint64_t id = 0;  // The number of the call.
    std::string method;
    Frame question;
  };

  const Env env_;
  const std::string dir_;
  Sensors& sensors_;
  const absl::TimeZone zone_;
  const Events events_;
  const absl::Time started_;

  // Used on the loop thread.
  std::optional<TraceFollower> trace_;  // [availability]
  LimitBook book_;
  OwnerLimits limits_;
  OwnerState state_;
  MachineView view_;
  MachineVerdict verdict_;
  bool decided_ = false;
  bool reading_ = false;
  bool saving_soon_ = false;
  bool writing_order_ = false;
  bool save_after_ = false;  // True if Save must be called after the order that is being written.
  // The training time in the peer's last report; nullopt before the first report.
  std::optional<double> train_seconds_;
  absl::Time idle_since_ = absl::InfinitePast();
  Executor::TimerId timer_ = 0;
  std::map<uint64_t, Asked> asked_;
  std::deque<Waiting> waiting_;  // The orders that arrived while another order was being written.
  uint64_t next_call_ = 0;
  SerialQueue writes_;
  CallbackGuard guard_;
};

}  // namespace atolld
