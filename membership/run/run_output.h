// The inputs and outputs of a Run. The inputs are its settings, its stored state, and operators'
// orders; the outputs say, for every event, what must be stored, sent and reported.
//
// A RunUpdate is one durable transaction: either all of it is stored or nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/admin.pb.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/history/checkpoint.h"
#include "membership/planning/plan_choice.h"
#include "membership/run/leases.h"
#include "membership/run/pace.h"
#include "membership/run/roster.h"
#include "membership/run/stop_rule.h"
#include "membership/run/training.h"
#include "membership/trust/tokens.h"
#include "membership/trust/update_judge.h"

namespace atolld {

// An operator's order for the whole run. The values are stored: never renumber them.
struct RunControl {
  enum class State { kGoing = 0, kPaused = 1, kStopping = 2 };
  State state = State::kGoing;
  std::string reason;  // in the operator's words; may be empty

  bool paused() const { return state == State::kPaused; }
  bool stopping() const { return state == State::kStopping; }
};

struct StoredRun {
  std::optional<v1::RunSpec> spec;  // nullopt in a new store
  uint64_t epoch = 0;
  bool started = false;  // true once the first round has begun
  RunControl control;
  std::optional<v1::Genesis> genesis;
  HistoryCheckpoint checkpoint;          // complete
  std::vector<HistoryGap> gaps;          // in ascending order
  std::vector<v1::EntryHeader> headers;  // the headers after the checkpoint, in ascending order
  // If `headers` is empty, the header of the checkpoint's version.
  std::optional<v1::EntryHeader> newest;
  LeaseRecords leases;
  std::vector<MemberRecord> members;
  std::vector<v1::RoundRecord> rounds;            // in ascending order
  std::vector<v1::EvaluationRecord> evaluations;  // in ascending order
  std::optional<v1::Seal> seal;
  std::vector<TokenRecord> tokens;
  std::vector<CertificateRecord> certificates;
  JudgeRecord judged;

  uint64_t version() const {
    return headers.empty() ? checkpoint.version : headers.back().version();
  }
};

struct RunUpdate {
  std::optional<v1::RunSpec> spec;
  std::optional<uint64_t> epoch;
  bool started = false;  // if true, sets StoredRun::started
  std::optional<RunControl> control;
  std::optional<v1::Genesis> genesis;
  // The next headers, in ascending order; each commit adds one.
  std::vector<v1::EntryHeader> headers;
  std::optional<HistoryGap> gap;  // the gap before `headers`
  // Updates the stored checkpoint (see Renew in checkpoint.h).
  std::optional<HistoryCheckpoint> checkpoint;
  std::optional<LeaseRecords> leases;             // replaces the stored value
  std::vector<MemberRecord> members;              // inserted or replaced
  std::vector<std::string> forgotten;             // members to remove, after `members`
  std::vector<v1::RoundRecord> rounds;            // the rounds of `headers`
  std::vector<v1::EvaluationRecord> evaluations;  // inserted or replaced
  std::optional<v1::Seal> seal;
  std::vector<TokenRecord> tokens;  // inserted or replaced, like `certificates`
  std::vector<CertificateRecord> certificates;
  // Serials of tokens and certificates to remove, after the changes above.
  std::vector<std::string> purged;
  std::optional<JudgeRecord> judged;  // replaces the stored value

  bool empty() const {
    return !spec && !epoch && !started && !control && !genesis && headers.empty() && !gap &&
           !checkpoint && !leases && members.empty() && forgotten.empty() && rounds.empty() &&
           evaluations.empty() && !seal && tokens.empty() && certificates.empty() &&
           purged.empty() && !judged;
  }
};

// A claim that the coordinator process with this life has begun this epoch. A life is kLifeBytes
// random bytes, which a coordinator draws at its start.
struct EpochClaim {
  uint64_t epoch = 0;
  std::string life;
};
inline constexpr size_t kLifeBytes = 16;

struct RunSettings {
  RoundSettings round;
  absl::Duration failure_timeout;
  // The cap of an update's weight, as a multiple of the median weight of its round; 0 if there is
  // no cap.
  float weight_cap = 0;
  PaceSettings pace;
  StopRule stop_when;
  PlanKind plan = PlanKind::kFlat;
  JudgeSettings judge;
  // Returns the greatest total size of this many values in the run's codecs.
  std::function<EncodedSize(uint64_t)> encoded_size = [](uint64_t values) {
    const double bytes = static_cast<double>(values) * sizeof(float);
    return EncodedSize{values, bytes, bytes};
  };
  // Returns 32 random bytes. Must be set if the run audits means.
  std::function<std::string()> draw_nonce;
  std::vector<v1::Scalar> scalars;  // the outer rule's scalars, in ascending order by name
  // The 32-byte digests of a header and of the genesis in the log's format, and the check that a
  // header is a valid successor. The arguments of the check are the genesis, the version and digest
  // of the previous header, and the header. They are functions so that tests can use a history of
  // their own.
  std::function<std::string(const v1::EntryHeader&)> header_digest;
  std::function<std::string(const v1::Genesis&)> genesis_digest;
  std::function<absl::Status(const v1::Genesis&, uint64_t, const std::string&,
                             const v1::EntryHeader&)>
      check_header;
  // The number of headers after which a checkpoint is made.
  uint64_t checkpoint_every = 256;
  // If null, the proof of a checkpoint is its digest.
  std::function<std::string(const Digest&)> sign_checkpoint;
  // These functions sign with the run's history key; they are null if the history is unsigned.
  std::function<std::string(const v1::EntryHeader&)> sign_header;
  std::function<std::string(const v1::Seal&)> sign_seal;
  std::function<std::string(const v1::Genesis&)> sign_genesis;
  std::function<std::string(const v1::Receipt&)> sign_receipt;
  // Checks that the run's history key has signed the header; null if the history is unsigned.
  std::function<absl::Status(const v1::EntryHeader&)> check_signed;
  // These functions sign and check claims that the holder of the history key has begun an epoch;
  // they are null if the history is unsigned.
  std::function<std::string(const EpochClaim&)> sign_epoch;
  std::function<bool(const EpochClaim&, const std::string& signature)> check_epoch;
  // 16 random bytes that identify this process of the coordinator.
  std::string life;
};

// Returns the settings, completed with what the run's spec says about its rounds.
inline RunSettings WithSpec(RunSettings settings, const v1::RunSpec& spec) {
  settings.round = WithParties(settings.round, spec);
  return settings;
}

// The result of dialling a peer. kRefused means that the connection was refused or that another
// peer answered; kSilent means that nothing answered.
enum class ProbeResult { kAnswered, kRefused, kSilent };

struct RunOrder {
  enum class Verb { kPause, kResume, kStop, kDrain, kEvict, kReadmit };
  Verb verb = Verb::kPause;
  std::string peer;    // set for the last three verbs
  std::string reason;  // in the operator's words, at most 256 bytes
};

// An output is carried out in this order. The certificates of the peers in `evicted` are revoked as
// part of the update, and the update is made durable. Then the events are logged, the messages in
// `sends` are sent, the sessions in `ends` are ended, and the peers in `probes` are dialled. If
// `finished` is true, the coordinator then exits. All of an output takes effect before any of the
// next one. The machines inside a Run append to one output, and each list is in the order of their
// decisions.
struct RunOutput {
  // kRecord is only for the log, because operators already see the fact in the run's rounds and
  // evaluations.
  enum class Severity { kRecord, kInfo, kWarning, kError };
  // Several sends may share one message, which is then serialised only once.
  using Message = std::shared_ptr<const v1::CoordinatorMessage>;
  struct Send {
    SessionId session;
    Message message;
  };
  // Tells the owner to finish the Session with this status, after the sends.
  struct End {
    SessionId session;
    absl::Status status;
  };
  // Tells the owner to dial the peer and to pass the result to OnProbed.
  struct Probe {
    std::string peer;
    std::string address;  // another peer that answers there counts as kRefused
  };
  struct Event {
    Severity severity;
    std::string line;
  };
  RunUpdate update;
  std::vector<Send> sends;
  std::vector<End> ends;
  std::vector<Probe> probes;
  std::vector<Event> events;
  // The peers that the run itself has evicted; their certificates must be revoked.
  std::vector<std::string> evicted;
  // A note for the operator whose order this output answers; empty if there is nothing to add.
  std::string notice;
  // True if the run is sealed, no live peer lacks the last state, and all peers have left or have
  // had enough time to leave.
  bool finished = false;

  void Say(std::string line, Severity severity = Severity::kInfo) {
    events.push_back({severity, std::move(line)});
  }
  bool empty() const {
    return update.empty() && sends.empty() && ends.empty() && probes.empty() && events.empty() &&
           evicted.empty() && !finished;
  }
};

}  // namespace atolld
