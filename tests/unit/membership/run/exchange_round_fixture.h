// ExchangeRoundFixture: an exchange of version 5 over 12 chunks, and what its peers may say to it.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "membership/run/exchange_round.h"

namespace atolld {

inline constexpr char kState[] = "ssssssssssssssssssssssssssssssss";

inline std::vector<ExchangeContributor> Contributors(const std::vector<std::string>& peers,
                                                     const std::vector<size_t>& dial_out = {}) {
  std::vector<ExchangeContributor> contributors;
  for (const std::string& peer : peers) {
    ExchangeContributor contributor;
    contributor.member.set_peer(peer);
    contributor.member.set_address(peer + ":1");
    contributors.push_back(contributor);
  }
  for (const size_t i : dial_out) contributors[i].member.clear_address();
  return contributors;
}

inline ExchangeTerms Terms(uint32_t quorum) {
  ExchangeTerms terms;
  terms.version = 5;
  terms.epoch = 2;
  terms.parameters = 12 * 4096 - 5;
  terms.chunk_elements = 4096;
  terms.quorum = quorum;
  terms.deadline = absl::Seconds(10);
  return terms;
}

struct ExchangeRoundFixture {
  using Verdict = ExchangeRound::Verdict;

  ExchangeRoundFixture(const std::vector<std::string>& peers, uint32_t quorum,
                       const std::vector<size_t>& dial_out = {})
      : round(Terms(quorum), Contributors(peers, dial_out)) {}

  v1::Vote MakeVote(char payload = 'p', const std::string& state = kState) const {
    const v1::Plan& plan = round.plan();
    v1::Vote vote;
    vote.set_version(plan.version());
    vote.set_epoch(plan.epoch());
    vote.set_revision(plan.revision());
    vote.set_payload_digest(std::string(32, payload));
    vote.set_state_digest(state);
    for (const v1::Shard& shard : plan.shards()) {
      v1::ShardRecord* record = vote.add_shards();
      record->set_first_chunk(shard.first_chunk());
      record->set_chunks(shard.chunks());
      record->set_reducer(shard.reducer());
      record->set_contributors(
          std::string(1, static_cast<char>((1 << plan.contributors_size()) - 1)));
    }
    return vote;
  }
  Verdict Vote(const std::string& peer, const v1::Vote& vote) {
    last = ExchangeRound::Outcome();
    EXPECT_TRUE(round.OnVote(peer, vote, &last).ok());
    return last.verdict;
  }
  Verdict Vote(const std::string& peer, char payload = 'p') {
    return Vote(peer, MakeVote(payload));
  }
  Verdict Lose(const std::string& peer) {
    const std::string lost[] = {peer};
    last = round.OnLost(lost);
    return last.verdict;
  }
  Verdict Unreachable(const std::string& reporter, const std::string& reducer) {
    v1::ReducerUnreachable report;
    report.set_version(5);
    report.set_epoch(2);
    report.set_revision(round.plan().revision());
    report.set_reducer(reducer);
    last = round.OnUnreachable(reporter, report);
    return last.verdict;
  }
  Verdict Deadline() {
    last = round.OnDeadline();
    return last.verdict;
  }
  std::string Shards() const {
    std::string text;
    for (const v1::Shard& shard : round.plan().shards()) {
      text += std::to_string(shard.first_chunk()) + "+" + std::to_string(shard.chunks()) + ":" +
              shard.reducer() + "/" + std::to_string(shard.attempt()) + " ";
    }
    return text;
  }

  ExchangeRound round;
  ExchangeRound::Outcome last;
};

}  // namespace atolld
