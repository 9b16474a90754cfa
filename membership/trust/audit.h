// The audit of an entry, between the agreement of its voters and the commit. AuditDraw draws the
// chunks that are recomputed and their auditors; AuditJudge decides what follows from the auditors'
// reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "atoll/v1/membership.pb.h"

namespace atolld {

// The most bytes of a text from a peer or an operator that are logged.
inline constexpr size_t kLongestReason = 256;

// Divide an order or a report with any number of chunks into messages that a Session accepts. Their
// receivers accept several orders or reports in a row. The reason of a verdict is cut to
// kLongestReason. The result is empty if there are no chunks or no verdicts.
inline constexpr int kMostChunksAnOrder = 65536;
inline constexpr int kMostVerdictsAReport = 1024;
std::vector<v1::Audit> InPages(const v1::Audit& order);
std::vector<v1::AuditReport> InPages(const v1::AuditReport& report);

// AuditDraw: draws the chunks of an entry that are recomputed before the commit, and the auditors
// that recompute them.
//
// The draw depends on the previous header, the payload that was voted for, and a nonce to which the
// plan committed by its hash. The peers that average cannot know the nonce in advance, and the
// coordinator cannot change it after it made the plan. Anyone that has the entry's header can
// repeat the draw. Pure. May be called from any thread.

// Returns the SHA-256 of the nonce. A plan has it, so that the coordinator cannot change the nonce
// later.
std::string AuditCommitment(absl::string_view nonce);

class AuditDraw {
 public:
  // Both digests have 32 bytes.
  AuditDraw(absl::string_view previous_header_digest, absl::string_view payload_digest,
            absl::string_view nonce);

  // Draws each of `chunks` chunks independently with the probability `share`, and returns those
  // drawn, ascending.
  std::vector<uint32_t> Chunks(uint32_t chunks, float share);

  // Draws one of the auditors with the least work in proportion to their strength, and adds one
  // chunk to its work. `strengths` has each auditor's strength, which is above 0. Returns an empty
  // string if there is no auditor.
  std::string Auditor(const std::map<std::string, uint64_t>& strengths);

 private:
  uint64_t Next();

  const std::string seed_;
  uint64_t block_ = 0;
  std::string left_;  // the unused rest of the current block
  std::map<std::string, uint64_t> load_;
};

// -----------------------------------------------------------------------------------------------
// AuditJudge: judges one agreed entry. It decides which auditors recompute which chunks, collects
// their reports, and decides what follows from them.
//
// A chunk is first recomputed by one auditor. If that auditor reports that the chunk is right, it
// counts as right. After any other report, every other auditor that can recompute the chunk is
// asked, and their results are compared:
//
// - If two or more auditors computed the same mean, which is not the one that was voted for, and
//   no auditor computed that one, the chunk's reducer has lied.
// - If two or more auditors computed the mean that was voted for, and fewer computed another, the
//   accusers are suspected and the mean stays.
// - Otherwise, or if the reducer gives out no inputs that match their roots, reducer and accusers
//   are suspected, and other peers must redo the reducer's shards.
//
// If a chunk passed through relays, a lie of its reducer cannot be distinguished from a lie of a
// relay, so all of them are suspected instead. A peer that is gone is not accused. But if no
// auditor reported its chunk as right, the chunk must be redone, because otherwise a liar would
// only need to leave in time. If no auditor answers for a chunk, the chunk counts as right. Pure.
// Used by one thread.

class AuditJudge {
 public:
  struct Terms {
    std::string previous_header_digest;
    std::string nonce;
    float share = 0;
    // The peers that may audit, because they hold the payload.
    std::set<std::string> auditors;
  };
  struct Result {
    std::map<std::string, std::string> liars;     // reducers, each with the evidence
    std::map<std::string, std::string> suspects;  // the suspects, each with the reason
    // The suspects that may not audit again in this exchange.
    std::set<std::string> accusers;
    std::set<std::string> redo;       // the reducers with shards that must be redone
    std::vector<std::string> events;  // messages for people
  };

  AuditJudge(Terms terms, const v1::Plan& plan, const v1::Vote& agreement);

  // Returns each auditor's orders that it has not been sent yet.
  std::map<std::string, v1::Audit> TakeOrders();
  // Returns the order with all chunks that the auditor was asked about and has not answered. It has
  // no chunks if everything is answered.
  v1::Audit OrderOf(const std::string& auditor) const;

  // Takes a report. Ignores chunks about which the auditor was not asked, or which it has answered
  // before.
  void OnReport(const std::string& auditor, const v1::AuditReport& report);
  void OnLost(const std::string& peer);
  // Called at the deadline. At the first one, asks all other auditors about open chunks. Returns
  // false if there are none to ask, so that the audit is complete.
  bool OnDeadline();

  bool complete() const;
  // True if there is a chunk about which every auditor was asked.
  bool disputed() const;
  Result Judge() const;  // judges the reports that have arrived so far

 private:
  struct Chunk {
    std::string reducer;
    // The relays that may have contributed to the chunk.
    std::set<std::string> relays;
    std::set<std::string> asked;  // the auditors that were asked and have not answered
    std::map<std::string, v1::ChunkVerdict> verdicts;  // by auditor
    // True if the reducer is gone and a holder serves the chunk instead.
    bool held = false;
    bool disputed = false;  // true if every auditor was asked
    bool closed = false;
  };

  std::set<std::string> Candidates(const Chunk& chunk) const;
  void Ask(uint32_t number, const std::string& auditor);
  void AskAll(uint32_t number);
  void CloseIfDone(Chunk* chunk);
  void JudgeChunk(uint32_t number, const Chunk& chunk, Result* result) const;
  // The peers that averaged the chunk and are gone.
  std::set<std::string> Gone(const Chunk& chunk) const;

  const Terms terms_;
  v1::Audit order_;  // the common part of all orders, without chunks
  AuditDraw draw_;
  std::set<std::string> auditors_;  // the auditors that are connected
  std::set<std::string> lost_;
  std::map<uint32_t, Chunk> chunks_;
  // The chunks of each auditor's order that were not taken yet.
  std::map<std::string, std::set<uint32_t>> orders_;
  bool late_ = false;  // true if a deadline has passed
};

}  // namespace atolld
