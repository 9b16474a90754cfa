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

namespace atolld {

struct MemberRecord {
  std::string peer;
  std::string address;
  std::string state;      // as in v1::Member
  std::string why{};      // it is in that state; for an evicted one what the operator said
  bool draining = false;  // asked to leave, and has not left yet
};

// Samples that are not spent. Those below `next` that are in no range are spent; those from `next`
// on were never leased.
struct LeaseRecord {
  std::string holder;  // empty: free
  uint64_t first = 0;
  uint64_t count = 0;
};
struct LeaseRecords {
  uint64_t next = 0;
  std::vector<LeaseRecord> ranges;  // ascending, disjoint
};

// A token that lets one machine join. The secret is not here.
struct TokenRecord {
  std::string serial;   // of its certificate
  std::string peer;     // id that whoever joins with it gets
  std::string role;     // "peer" or "aggregator"
  int64_t expires = 0;  // Unix seconds
  bool revoked = false;
  std::string key{};  // digest of the public key that has joined with it; empty: nobody yet
};

// A certificate that was signed, or that a peer has come with.
struct CertificateRecord {
  std::string serial;
  std::string peer;
  bool revoked = false;
  int64_t expires = 0;  // Unix seconds, or later than it does; 0: an older release did not note it
};

// What the coordinator keeps of a peer's updates (update_judge.h).
struct JudgedPeer {
  std::string peer;
  uint64_t offences = 0;  // an OffenceRecord: of the last 64 rounds, the newest in the lowest bit
  uint64_t refused = 0;   // chunks and whole updates
  uint64_t clipped = 0;   // updates that were scaled down
  std::string offence;    // the last, in words; empty: none
};

struct JudgeRecord {
  std::vector<double>
      medians;  // of the updates' lengths in the last committed rounds, oldest first
  std::vector<JudgedPeer> peers;  // ascending by name
};

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
