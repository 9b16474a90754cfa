// RunSettings and RunOutput: what a Run is told once, and what it answers to every event.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "atoll/v1/membership.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/planning/plan_choice.h"
#include "membership/run/pace.h"
#include "membership/run/record.h"
#include "membership/run/roster.h"
#include "membership/run/round.h"
#include "membership/trust/update_judge.h"

namespace atolld {

struct RunSettings {
  RoundSettings round;
  absl::Duration failure_timeout;
  float weight_cap = 0;  // of an update's weight, in medians of its round; 0: none
  PaceSettings pace;
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
  // arguments: genesis, version and digest of the header before). They belong to a layer above this
  // one.
  std::function<std::string(const v1::EntryHeader&)> header_digest;
  std::function<std::string(const v1::Genesis&)> genesis_digest;
  std::function<absl::Status(const v1::Genesis&, uint64_t, const std::string&,
                             const v1::EntryHeader&)>
      check_header;
  // By the run's history key; null: its history is unsigned.
  std::function<std::string(const v1::EntryHeader&)> sign_header;
  std::function<std::string(const v1::Seal&)> sign_seal;
};

struct RunOrder {
  enum class Verb { kPause, kResume, kStop, kDrain, kEvict, kReadmit };
  Verb verb = Verb::kPause;
  std::string peer;    // of the last three
  std::string reason;  // in the operator's words, at most 256 bytes
};

struct RunOutput {
  // kRecord: what the run's rounds and evaluations tell an operator already; for the log alone.
  enum class Severity { kRecord, kInfo, kWarning, kError };
  struct Send {
    SessionId session;
    v1::CoordinatorMessage message;
  };
  struct End {  // finish the Session with this status, after the sends
    SessionId session;
    absl::Status status;
  };
  struct Probe {  // dial it; tell OnRefused if it refuses
    std::string peer;
    std::string address;
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

  bool empty() const {
    return update.empty() && sends.empty() && ends.empty() && probes.empty() && events.empty() &&
           evicted.empty() && !finished;
  }
};

}  // namespace atolld
