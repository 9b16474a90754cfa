// What the coordinator remembers of a run: the whole of it as it is loaded, and one change of it as
// it is stored.
//
// A RunUpdate is one durable transaction: all of it or nothing. Whatever is said to a peer because
// of an update is said after the update is durable.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "atoll/v1/admin.pb.h"
#include "atoll/v1/run.pb.h"
#include "membership/run/leases.h"
#include "membership/run/roster.h"
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
  std::vector<v1::EntryHeader> headers;  // ascending from version 1, without a gap
  LeaseRecords leases;
  std::vector<MemberRecord> members;
  std::vector<v1::RoundRecord> rounds;            // ascending
  std::vector<v1::EvaluationRecord> evaluations;  // ascending
  std::optional<v1::Seal> seal;
  std::vector<TokenRecord> tokens;
  std::vector<CertificateRecord> certificates;
  JudgeRecord judged;
};

struct RunUpdate {
  std::optional<v1::RunSpec> spec;
  std::optional<uint64_t> epoch;
  bool started = false;  // true: sets it
  std::optional<RunControl> control;
  std::optional<v1::Genesis> genesis;
  std::vector<v1::EntryHeader> headers;           // ascending, the next ones: one a commit
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
    return !spec && !epoch && !started && !control && !genesis && headers.empty() && !leases &&
           members.empty() && forgotten.empty() && rounds.empty() && evaluations.empty() && !seal &&
           tokens.empty() && certificates.empty() && purged.empty() && !judged;
  }
};

}  // namespace atolld
