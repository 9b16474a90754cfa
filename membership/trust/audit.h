// The audit of an entry that its voters have agreed on, before it is committed: which chunks are
// recomputed and by whom (AuditDraw), and what follows from what the auditors say (AuditJudge).
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

// Of a peer's or an operator's words in the log.
inline constexpr size_t kLongestReason = 256;

// As they travel: in messages that a Session takes, however many chunks were drawn. One order may
// follow another, and so may reports. A verdict's reason is cut to kLongestReason. None for no
// chunks, no verdicts.
inline constexpr int kMostChunksAnOrder = 65536;
inline constexpr int kMostVerdictsAReport = 1024;
std::vector<v1::Audit> InPages(const v1::Audit& order);
std::vector<v1::AuditReport> InPages(const v1::AuditReport& report);

// AuditDraw: which chunks of an entry are recomputed before it is committed, and by whom.
//
// The draw depends on the header before, the payload that was voted for, and a nonce that the plan
// had committed to by its hash: whoever averages cannot know the nonce, and whoever knows it can no
// longer change it. With the header of the entry anybody can draw again. Pure; any thread.

// What a plan says of a nonce before it is told: SHA-256.
std::string AuditCommitment(absl::string_view nonce);

class AuditDraw {
 public:
  // Digests of 32 bytes: of the header before, and of the payload.
  AuditDraw(absl::string_view previous_header_digest, absl::string_view payload_digest,
            absl::string_view nonce);

  // Of `chunks` each with this probability, whatever comes of the others. Ascending.
  std::vector<uint32_t> Chunks(uint32_t chunks, float share);

  // One of those that have the least to do for their strength, above 0, which then has one more;
  // empty: there is nobody.
  std::string Auditor(const std::map<std::string, uint64_t>& strengths);

 private:
  uint64_t Next();

  const std::string seed_;
  uint64_t block_ = 0;
  std::string left_;  // of the block
  std::map<std::string, uint64_t> load_;
};

// -----------------------------------------------------------------------------------------------
// AuditJudge: the judgement of one agreed entry: who recomputes which chunks, what they say, and
// what follows from it.
//
// A chunk that one auditor calls right is right. If it says anything else, everybody else who can
// is asked, and the accounts are held against each other:
//
//   two or more recomputed another mean, the same one, and nobody the one that was voted for:
//     its reducer has lied
//   fewer recomputed another mean than the one that was voted for, which two or more did:
//     the accusers are suspected, the mean stands
//   otherwise, or if the reducer gives out no inputs that match their roots: reducer and accusers
//     are suspected, and the reducer's shards are to be redone elsewhere
//
// In a chunk that came through relays nobody can tell the reducer's lie from a relay's: all of them
// are suspected instead. Whoever died is not accused; but what the dead averaged and nobody called
// right is to be redone, or a lie would need no more than to leave in time. What silent auditors
// left open stands. Pure; one thread.

class AuditJudge {
 public:
  struct Terms {
    std::string previous_header_digest;
    std::string nonce;
    float share = 0;
    std::set<std::string> auditors;  // who may be: they hold the payload
  };
  struct Result {
    std::map<std::string, std::string> liars;     // reducers, with the evidence
    std::map<std::string, std::string> suspects;  // and why
    std::set<std::string> accusers;               // of the suspects: not to be believed again
    std::set<std::string> redo;                   // reducers whose shards are to be redone
    std::vector<std::string> events;              // for people
  };

  AuditJudge(Terms terms, const v1::Plan& plan, const v1::Vote& agreement);

  // What each auditor is to be told and has not been yet.
  std::map<std::string, v1::Audit> TakeOrders();
  // All that it has been told and has not answered; no chunks: nothing.
  v1::Audit OrderOf(const std::string& auditor) const;

  // What was not asked for, or was answered before, does nothing.
  void OnReport(const std::string& auditor, const v1::AuditReport& report);
  void OnLost(const std::string& peer);
  // False: waiting on is of no use; it is complete now.
  bool OnDeadline();

  bool complete() const;
  bool disputed() const;  // of some chunk everybody was asked
  Result Judge() const;   // of what has been said so far

 private:
  struct Chunk {
    std::string reducer;
    std::set<std::string> relays;                      // that could have had a part in it
    std::set<std::string> asked;                       // and not answered
    std::map<std::string, v1::ChunkVerdict> verdicts;  // by auditor
    bool held = false;                                 // its reducer is gone, another gives it
    bool disputed = false;                             // everybody was asked
    bool closed = false;
  };

  std::set<std::string> Candidates(const Chunk& chunk) const;
  void Ask(uint32_t number, const std::string& auditor);
  void AskAll(uint32_t number);
  void CloseIfDone(Chunk* chunk);
  void JudgeChunk(uint32_t number, const Chunk& chunk, Result* result) const;
  std::set<std::string> Gone(const Chunk& chunk) const;  // of those that averaged it

  const Terms terms_;
  v1::Audit order_;  // without chunks
  AuditDraw draw_;
  std::set<std::string> auditors_;  // that are there
  std::set<std::string> lost_;
  std::map<uint32_t, Chunk> chunks_;
  std::map<std::string, std::set<uint32_t>> orders_;  // not taken yet
  bool late_ = false;                                 // a deadline has passed
};

}  // namespace atolld
