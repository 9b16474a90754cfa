// What a Run is told and what it answers: its settings, what is stored of it and what an operator
// asks; and, to every event, what is to be stored, sent and said.
//
// A RunUpdate is one durable transaction: all of it or nothing.
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

// What an operator has asked of the whole run. The values are stored: never renumber them.
struct RunControl {
  enum class State { kGoing = 0, kPaused = 1, kStopping = 2 };
  State state = State::kGoing;
  std::string reason;  // in the operator's words; may be empty

  bool paused() const { return state == State::kPaused; }
  bool stopping() const { return state == State::kStopping; }
};

struct StoredRun {
  std::optional<v1::RunSpec> spec;  // empty: a new store
  uint64_t epoch = 0;
  bool started = false;  // the first round has begun once
  RunControl control;
  std::optional<v1::Genesis> genesis;
  HistoryCheckpoint checkpoint;           // whole
  std::vector<HistoryGap> gaps;           // ascending
  std::vector<v1::EntryHeader> headers;   // those after the checkpoint, ascending
  std::optional<v1::EntryHeader> newest;  // of the checkpoint's version, where there are none
  LeaseRecords leases;
  std::vector<MemberRecord> members;
  std::vector<v1::RoundRecord> rounds;            // ascending
  std::vector<v1::EvaluationRecord> evaluations;  // ascending
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
  bool started = false;  // true: sets it
  std::optional<RunControl> control;
  std::optional<v1::Genesis> genesis;
  std::vector<v1::EntryHeader> headers;           // ascending, the next ones: one a commit
  std::optional<HistoryGap> gap;                  // before those headers
  std::optional<HistoryCheckpoint> checkpoint;    // renews the former (Renew)
  std::optional<LeaseRecords> leases;             // replaces the former
  std::vector<MemberRecord> members;              // inserted or replaced
  std::vector<std::string> forgotten;             // members to remove, after those
  std::vector<v1::RoundRecord> rounds;            // of the headers
  std::vector<v1::EvaluationRecord> evaluations;  // inserted or replaced
  std::optional<v1::Seal> seal;
  std::vector<TokenRecord> tokens;  // inserted or replaced, as the next
  std::vector<CertificateRecord> certificates;
  std::vector<std::string> purged;    // serials of tokens and certificates to remove, after those
  std::optional<JudgeRecord> judged;  // replaces the former

  bool empty() const {
    return !spec && !epoch && !started && !control && !genesis && headers.empty() && !gap &&
           !checkpoint && !leases && members.empty() && forgotten.empty() && rounds.empty() &&
           evaluations.empty() && !seal && tokens.empty() && certificates.empty() &&
           purged.empty() && !judged;
  }
};

// That a life of the coordinator, kLifeBytes drawn at its start, has begun this epoch.
struct EpochClaim {
  uint64_t epoch = 0;
  std::string life;
};
inline constexpr size_t kLifeBytes = 16;

struct RunSettings {
  RoundSettings round;
  absl::Duration failure_timeout;
  float weight_cap = 0;  // of an update's weight, in medians of its round; 0: none
  PaceSettings pace;
  StopRule stop_when;
  PlanKind plan = PlanKind::kFlat;
  JudgeSettings judge;
  // What the codecs make of so many values, at most; all of them together.
  std::function<EncodedSize(uint64_t)> encoded_size = [](uint64_t values) {
    const double bytes = static_cast<double>(values) * sizeof(float);
    return EncodedSize{values, bytes, bytes};
  };
  // 32 random bytes; needed where the run audits means.
  std::function<std::string()> draw_nonce;
  std::vector<v1::Scalar> scalars;  // of the outer rule, ascending by name
  // The digests of the log's format, 32 bytes, and what makes a header a valid successor (its
  // arguments: genesis, version and digest of the header before). Tests have a history of their
  // own.
  std::function<std::string(const v1::EntryHeader&)> header_digest;
  std::function<std::string(const v1::Genesis&)> genesis_digest;
  std::function<absl::Status(const v1::Genesis&, uint64_t, const std::string&,
                             const v1::EntryHeader&)>
      check_header;
  // A checkpoint is made when the history has grown by so many headers since the one before it.
  uint64_t checkpoint_every = 256;
  std::function<std::string(const Digest&)> sign_checkpoint;  // null: the digest proves it
  // By the run's history key; null: its history is unsigned.
  std::function<std::string(const v1::EntryHeader&)> sign_header;
  std::function<std::string(const v1::Seal&)> sign_seal;
  std::function<std::string(const v1::Genesis&)> sign_genesis;
  std::function<std::string(const v1::Receipt&)> sign_receipt;
  // Whether the run's history key has signed it; null as those above.
  std::function<absl::Status(const v1::EntryHeader&)> check_signed;
  // That an epoch was begun by the holder of that key; null as those above.
  std::function<std::string(const EpochClaim&)> sign_epoch;
  std::function<bool(const EpochClaim&, const std::string& signature)> check_epoch;
  // Of this process of the coordinator: 16 random bytes.
  std::string life;
};

// What came of dialling a peer: it answered; nobody is there, or somebody else; or nothing came.
enum class ProbeResult { kAnswered, kRefused, kSilent };

struct RunOrder {
  enum class Verb { kPause, kResume, kStop, kDrain, kEvict, kReadmit };
  Verb verb = Verb::kPause;
  std::string peer;    // of the last three
  std::string reason;  // in the operator's words, at most 256 bytes
};

// It is carried out in this order: the certificates of those in `evicted` are revoked within the
// update, and the update is made durable; then events are logged, sends are sent, ends end their
// sessions, probes dial, and who has nothing more to do ends (`finished`). An output takes effect
// as a whole before the next one does. The machines inside a Run append to one output, each list in
// the order in which things were decided.
struct RunOutput {
  // kRecord: what the run's rounds and evaluations tell an operator already; for the log alone.
  enum class Severity { kRecord, kInfo, kWarning, kError };
  // One message may be many sends': it is packed once.
  using Message = std::shared_ptr<const v1::CoordinatorMessage>;
  struct Send {
    SessionId session;
    Message message;
  };
  struct End {  // finish the Session with this status, after the sends
    SessionId session;
    absl::Status status;
  };
  struct Probe {  // dial it; tell OnProbed what came of it
    std::string peer;
    std::string address;  // where nobody else may answer for it
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
  std::vector<std::string> evicted;  // by the run itself: their certificates are to be revoked
  std::string notice;  // for the operator whose order this answers; empty: nothing to add
  // Sealed, nobody alive lacks the last state, and everybody has left or had the time to.
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
