#include "tests/unit/daemon/coordinator/stored_updates.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_format.h"
#include "daemon/config/config.h"
#include "gtest/gtest.h"
#include "membership/history/signing_key.h"
#include "tests/bench/long_history.h"

namespace atolld {

v1::EntryHeader StoredHeader(uint64_t version) {
  v1::EntryHeader header;
  header.set_run_id("r");
  header.set_version(version);
  header.set_payload_digest(std::string("\0\1\2", 3));
  return header;
}

std::vector<RunUpdate> StoredUpdates() {
  RunUpdate begin;
  begin.spec.emplace().set_run_id("r");
  begin.epoch = 3;
  RunUpdate genesis;
  genesis.genesis.emplace().set_state_digest("g");
  genesis.members = {{"a", "a:1", "live"}, {"b", "", "joining"}};
  RunUpdate commit;
  commit.started = true;
  commit.headers = {StoredHeader(1)};
  commit.rounds.emplace_back().set_version(1);
  commit.control = RunControl{RunControl::State::kPaused, "at night"};
  commit.leases = LeaseRecords{30, {{"", 0, 5}, {"a", 10, 20}}};
  commit.evaluations.emplace_back().set_loss(2.5);
  RunUpdate later;
  later.headers = {StoredHeader(2)};
  later.rounds.emplace_back().set_version(2);
  later.leases = LeaseRecords{uint64_t{1} << 63, {{"b", 10, 1}}};
  later.members = {{"b", "b:2", "evicted", "it lies"}, {"c", "", "live", "asked", true}};
  later.forgotten = {"a", "nobody"};
  later.control = RunControl{RunControl::State::kStopping, ""};
  later.seal.emplace().set_version(2);
  begin.tokens = {{"t1", "a", "peer", 1800000000}, {"t2", "b", "aggregator", 5, true, "k"}};
  begin.certificates = {{"c1", "a", false}, {"c2", "b", true, 1700000000}};
  later.tokens = {{"t1", "a", "peer", 1800000000, false, std::string("\0k", 2)}};
  later.certificates = {
      {"c1", "a", true},
      {"c3", "c", false},
      {"c3x", "c", true, 1700000001, true, "admin", "f00d", 1600000000, 1650000000}};
  commit.judged = JudgeRecord{{1.5, 0x1p-70}, {{"a", 1, 1, 0, "it lies"}}};
  later.judged = JudgeRecord{{0x1p-70, 0x1.8p90, 0.1},
                             {{"a", 2, 1, 1, "it lies"}, {"b", ~uint64_t{0}, 0, 3, ""}}};
  RunUpdate purge;
  purge.certificates = {{"c4", "d", true, 7}, {"c5", "d", false, 8}};
  purge.tokens = {{"t3", "d", "peer", 9}};
  purge.purged = {"c4", "t3", "none"};
  return {begin, genesis, commit, later, purge};
}

std::string TextOf(const StoredRun& run) {
  std::string text = run.spec ? run.spec->run_id() : "-";
  text += " epoch " + std::to_string(run.epoch) + (run.started ? " started" : "");
  text += run.control.paused() ? " paused" : run.control.stopping() ? " stopping" : "";
  text += run.control.reason.empty() ? "" : " (" + run.control.reason + ")";
  text += run.genesis ? " genesis " + run.genesis->state_digest() : "";
  for (const auto& header : run.headers) text += " h" + std::to_string(header.version());
  for (const auto& gap : run.gaps) {
    text += " gap " + std::to_string(gap.first) + "-" + std::to_string(gap.last);
  }
  if (run.checkpoint.version > 0) {
    text += " checkpoint " + std::to_string(run.checkpoint.version) + "," + run.checkpoint.proof +
            "," + std::to_string(std::hash<std::string>()(run.checkpoint.digests));
  }
  for (const auto& sum : run.checkpoint.contributors) {
    text += " s:" + sum.peer + "," + std::to_string(sum.rounds) + "," + std::to_string(sum.tokens) +
            "," + std::to_string(sum.steps) + "," + std::to_string(sum.first_version) + "-" +
            std::to_string(sum.last_version) + "," +
            std::to_string(absl::bit_cast<uint64_t>(sum.shares));
  }
  for (const auto& lease : run.leases.ranges) {
    text += " [" + lease.holder + " " + std::to_string(lease.first) + "+" +
            std::to_string(lease.count) + "]";
  }
  text += " next " + std::to_string(run.leases.next);
  for (const auto& member : run.members) {
    text += " " + member.peer + "@" + member.address + "=" + member.state;
    text += (member.why.empty() ? "" : "(" + member.why + ")") + (member.draining ? "-" : "");
  }
  for (const auto& token : run.tokens) {
    text += " t:" + token.serial + "," + token.peer + "," + token.role + "," +
            std::to_string(token.expires) + (token.revoked ? ",revoked," : ",") + token.key;
  }
  for (const auto& certificate : run.certificates) {
    text += " c:" + certificate.serial + "," + certificate.peer + (certificate.revoked ? "!" : "") +
            (certificate.expires == 0 ? "" : "," + std::to_string(certificate.expires)) +
            (certificate.for_good ? "!!" : "") + certificate.role + certificate.key +
            (certificate.issued == 0 ? "" : ",i" + std::to_string(certificate.issued)) +
            (certificate.last_seen == 0 ? "" : ",s" + std::to_string(certificate.last_seen));
  }
  for (const auto& round : run.rounds) text += " r" + std::to_string(round.version());
  for (const auto& evaluation : run.evaluations) text += " e" + std::to_string(evaluation.loss());
  for (const double median : run.judged.medians) text += absl::StrFormat(" m%a", median);
  for (const auto& judged : run.judged.peers) {
    text += absl::StrFormat(" j:%s,%x,%d,%d,%s", judged.peer, judged.offences, judged.refused,
                            judged.clipped, judged.offence);
  }
  return text + (run.seal ? " sealed " + std::to_string(run.seal->version()) : "");
}

std::vector<RunUpdate> CheckpointUpdates() {
  std::vector<RunUpdate> updates(4);
  updates[0].headers = {StoredHeader(1), StoredHeader(2)};
  updates[0].checkpoint = HistoryCheckpoint{
      2, 0, std::string(64, 'd'), {{"a", 2, 10, 20, 1, 2, 0.1}, {"b", 1, 5}}, "p2"};
  updates[1].headers = {StoredHeader(3)};
  updates[1].checkpoint = HistoryCheckpoint{3, 2, std::string(32, 'e'), {{"b", 2, 9}}, "p3"};
  updates[2].gap = HistoryGap{4, 8};
  updates[2].headers = {StoredHeader(9)};
  updates[3].checkpoint = HistoryCheckpoint{2, 0, std::string(64, 'f'), {{"c", 1, 1}}, "anew"};
  return updates;
}

void FillWithRun(Store& store, uint64_t rounds) {
  Config config;
  config.run.id = "long";
  config.run.rounds = 2 * rounds + 2;
  config.model.kind = "stub";
  config.model.parameters = 100000;
  config.coordinator.address = "127.0.0.1:7070";
  const SigningKey key = *SigningKey::FromSeed(std::string(32, 's'));
  LongHistory history(config, 3, key);
  EXPECT_TRUE(store.Apply(history.Begin()).ok());
  for (uint64_t left = rounds; left > 0; left -= std::min<uint64_t>(left, 100)) {
    EXPECT_TRUE(store.Apply(history.Next(std::min<uint64_t>(left, 100))).ok());
  }
  for (RunUpdate update : StoredUpdates()) {
    update.spec.reset();
    update.genesis.reset();
    update.headers.clear();
    update.rounds.clear();
    update.seal.reset();
    EXPECT_TRUE(store.Apply(update).ok());
  }
}

StoredRun Loaded(Store& store) {
  absl::StatusOr<StoredRun> run = store.Load();
  EXPECT_TRUE(run.ok()) << run.status();
  run->headers = *store.ReadHeaders(0, 1000);
  return *std::move(run);
}

}  // namespace atolld
