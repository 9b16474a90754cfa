// A coordinator whose store is behind its peers adopts their history.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/membership/run/simulated_peers.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using Headers = std::vector<v1::EntryHeader>;

constexpr uint64_t kRounds = 6000;

v1::EntryHeader Next(const SimulatedPeers& peers, const v1::EntryHeader* before,
                     const std::string& mark = "") {
  v1::EntryHeader header;
  header.set_run_id("r1");
  header.set_version(before == nullptr ? 1 : before->version() + 1);
  header.set_outer_rule(mark);
  header.set_previous_header_digest(before == nullptr
                                        ? peers.settings.genesis_digest(*peers.stored.genesis)
                                        : peers.settings.header_digest(*before));
  for (const char* peer : {"a", "b"}) {
    v1::Contributor* contributor = header.add_contributors();
    contributor->set_peer(peer);
    contributor->set_tokens(100);
    v1::SampleRange* range = contributor->add_samples();
    range->set_first((header.version() - 1) * 20 + (*peer == 'a' ? 0 : 10));
    range->set_count(10);
  }
  return header;
}

// A run of two at version 0, and the history that it has made since this store was copied.
struct Restored {
  explicit Restored(uint64_t versions) : peers(2, 2, kRounds) {
    peers.Begin({"a", "b"});
    history = Extend({}, versions);
    peers.Restart();
  }
  Headers Extend(Headers headers, uint64_t versions, const std::string& mark = "") const {
    while (headers.size() < versions) {
      headers.push_back(Next(peers, headers.empty() ? nullptr : &headers.back(), mark));
    }
    return headers;
  }
  void ComeBack(const std::string& peer, const v1::EntryHeader* header, uint64_t epoch = 0) {
    v1::Hello hello = peers.Returning(peer, header);
    hello.set_epoch(epoch);
    peers.Join(peer, &hello);
    peers.WorkerReady(peer);
  }
  const absl::Status& EndOf(const std::string& peer) {
    return peers.ended[peers.sessions.at(peer)];
  }

  SimulatedPeers peers;
  Headers history;
};

// Would break: a coordinator restored from a backup throws its peers out, and the run is lost.
TEST(RunAdoption, TheStoreLearnsWhatItLacksAndTheRunGoesOn) {
  Restored r(5);
  r.ComeBack("a", &r.history[4]);
  EXPECT_EQ(r.peers.Asked("a"), nullptr);  // the other may hold more
  r.ComeBack("b", &r.history[4]);
  ASSERT_NE(r.peers.Asked("a"), nullptr);
  EXPECT_EQ(r.peers.Asked("a")->first_version(), 1u);
  EXPECT_FALSE(r.peers.Asked("a")->genesis());
  EXPECT_EQ(r.peers.phase(), "waiting");
  EXPECT_THAT(r.peers.reason(), HasSubstr("the store is at version 0, peers hold version 5"));
  EXPECT_EQ(r.peers.Train("b"), nullptr);
  r.peers.TellHeaders("a", r.history, 3);  // batch by batch
  EXPECT_EQ(r.peers.stored.headers.size(), 3u);
  ASSERT_NE(r.peers.Asked("a"), nullptr);
  EXPECT_EQ(r.peers.Asked("a")->first_version(), 4u);
  r.peers.TellHeaders("a", r.history, 3);
  ASSERT_EQ(r.peers.stored.headers.size(), 5u);
  EXPECT_EQ(r.peers.stored.headers[4].SerializeAsString(), r.history[4].SerializeAsString());
  EXPECT_EQ(r.peers.Last("b", &v1::CoordinatorMessage::has_welcome)->welcome().version(), 5u);
  EXPECT_TRUE(r.peers.Said("adopted its peers' history up to version 5"));
  // Rounds are rebuilt as far as headers say; samples of the history are spent.
  ASSERT_EQ(r.peers.stored.rounds.size(), 5u);
  EXPECT_EQ(r.peers.stored.rounds[4].tokens(), 200u);
  EXPECT_EQ(r.peers.stored.rounds[4].contributors(), 2u);
  EXPECT_EQ(r.peers.run->Status(r.peers.now).peers(0).rounds_contributed(), 5u);
  ASSERT_NE(r.peers.Train("a"), nullptr);
  EXPECT_EQ(r.peers.Train("a")->version(), 6u);
  EXPECT_GE(r.peers.Train("a")->samples(0).first(), 100u);
  r.peers.Commit({"a", "b"});
  EXPECT_EQ(r.peers.stored.headers.size(), 6u);
}

// Would break: a shorter history wins because its peer came first.
TEST(RunAdoption, TheLongestOfAllThatComeBackIsTaken) {
  Restored r(7);
  r.ComeBack("a", &r.history[3]);
  r.ComeBack("b", &r.history[6]);
  EXPECT_EQ(r.peers.Asked("a"), nullptr);
  ASSERT_NE(r.peers.Asked("b"), nullptr);
  r.peers.TellHeaders("b", r.history);
  EXPECT_EQ(r.peers.stored.headers.size(), 7u);
  // a is behind now, and no stranger.
  EXPECT_EQ(r.peers.ended.count(r.peers.sessions.at("a")), 0u);
  r.peers.Synced("a", 7);
  EXPECT_EQ(r.peers.Train("a")->version(), 8u);
}

// Would break: one peer that comes back late and last makes all others wait for ever, or the
// history that it alone holds is lost.
TEST(RunAdoption, TheGraceEndsTheWaitForOthers) {
  Restored r(3);
  r.ComeBack("a", &r.history[2]);
  r.peers.Tick(absl::Seconds(9));
  EXPECT_EQ(r.peers.Asked("a"), nullptr);
  r.peers.Tick(absl::Seconds(1));
  EXPECT_TRUE(r.peers.Said("peer b died"));
  ASSERT_NE(r.peers.Asked("a"), nullptr);
  r.peers.TellHeaders("a", r.history);
  EXPECT_EQ(r.peers.run->version(), 3u);
}

// Would break: two histories are mixed, and replicas split.
TEST(RunAdoption, AForkIsRefusedAndBothDigestsAreNamed) {
  Restored r(4);
  const Headers fork = r.Extend({r.history[0]}, 3, "fork");
  r.ComeBack("a", &r.history[3]);
  r.ComeBack("b", &fork[2]);
  r.peers.TellHeaders("a", r.history);
  EXPECT_EQ(r.peers.run->version(), 4u);
  EXPECT_EQ(r.EndOf("b").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(r.EndOf("b").message(), HasSubstr("two histories"));
  EXPECT_TRUE(r.peers.Said("peer b was refused: its version 3 has header"));
  EXPECT_EQ(r.peers.StateOf("a"), "live");
}

// Would break: a longer history that comes after this one has gone on overwrites it.
TEST(RunAdoption, AfterACommitALongerHistoryIsAFork) {
  Restored r(4);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, nullptr);
  r.peers.Commit({"a", "b"});
  ASSERT_EQ(r.peers.run->version(), 1u);
  r.ComeBack("c", &r.history[3]);
  EXPECT_EQ(r.EndOf("c").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(r.EndOf("c").message(), HasSubstr("it holds version 4 with header"));
  EXPECT_THAT(r.EndOf("c").message(), HasSubstr("the run's newest is 1 with header"));
  EXPECT_TRUE(r.peers.Said("two histories"));
  EXPECT_EQ(r.peers.Asked("c"), nullptr);
  // So too once the coordinator has started again: the chain tells.
  r.peers.Restart();
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.peers.stored.headers[0]);
  r.ComeBack("c", &r.history[3]);
  ASSERT_NE(r.peers.Asked("c"), nullptr);
  Headers rest(r.history.begin() + 1, r.history.end());
  rest[0].set_previous_header_digest(std::string(32, 'x'));  // of a first header that is not ours
  r.peers.TellHeaders("c", rest);
  EXPECT_THAT(r.EndOf("c").message(), HasSubstr("the chain is broken"));
  EXPECT_EQ(r.peers.run->version(), 1u);
}

// Would break: a commit goes past a history that is longer, when its holder comes in mid-exchange.
TEST(RunAdoption, AnExchangeUnderWayIsGivenUp) {
  Restored r(4);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, nullptr);
  for (const char* peer : {"a", "b"}) r.peers.Ready(peer);
  ASSERT_EQ(r.peers.phase(), "exchanging");
  const uint64_t epoch = r.peers.stored.epoch;
  r.ComeBack("c", &r.history[3]);
  EXPECT_EQ(r.peers.stored.epoch, epoch + 1);
  for (const char* peer : {"a", "b"}) r.peers.Vote(peer);
  EXPECT_EQ(r.peers.run->version(), 0u);
  r.peers.TellHeaders("c", r.history);
  EXPECT_EQ(r.peers.run->version(), 4u);
}

// Would break: the donor's death in mid-answer stops the adoption, or what it told is lost.
TEST(RunAdoption, AnotherIsAskedWhenTheDonorDiesInMidAnswer) {
  Restored r(6);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.history[5]);
  r.peers.TellHeaders("a", r.history, 2);
  EXPECT_EQ(r.peers.run->version(), 2u);
  r.peers.Die("a");
  ASSERT_NE(r.peers.Asked("b"), nullptr);
  EXPECT_EQ(r.peers.Asked("b")->first_version(), 3u);
  r.peers.TellHeaders("b", r.history);
  EXPECT_EQ(r.peers.run->version(), 6u);
}

// Would break: the run goes on without the history of a peer whose session broke for a second.
TEST(RunAdoption, ABrokenSessionOfTheOnlyDonorIsAwaited) {
  Restored r(3);
  r.ComeBack("a", nullptr);
  r.ComeBack("b", &r.history[2]);
  r.peers.JoinAndWork("c");
  r.peers.Synced("c", 0);
  ASSERT_NE(r.peers.Asked("b"), nullptr);
  r.peers.Break("b");
  EXPECT_EQ(r.peers.phase(), "waiting");
  for (const char* peer : {"a", "c"}) EXPECT_EQ(r.peers.Train(peer), nullptr);
  r.peers.Clear();
  r.ComeBack("b", &r.history[2]);
  ASSERT_NE(r.peers.Asked("b"), nullptr);
  r.peers.TellHeaders("b", r.history);
  EXPECT_EQ(r.peers.run->version(), 3u);
}

// Would break: a peer that takes the question and says nothing holds the run up for ever.
TEST(RunAdoption, ASilentDonorIsPassedOverAndThenRefused) {
  Restored r(3);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.history[2]);
  ASSERT_NE(r.peers.Asked("a"), nullptr);
  EXPECT_EQ(r.peers.run->NextWake(r.peers.now), r.peers.now + absl::Seconds(10));
  r.peers.Tick(absl::Seconds(10));
  ASSERT_NE(r.peers.Asked("b"), nullptr);
  r.peers.Clear();
  r.peers.Tick(absl::Seconds(55));
  EXPECT_EQ(r.EndOf("a").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(r.EndOf("b").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(r.peers.reason(), "0 of 2 peers are here; waiting for 2 more");
}

// Would break: one peer's forged or damaged headers enter the history, or keep the true one out.
TEST(RunAdoption, AForgedHeaderIsRefusedAndAnotherIsAsked) {
  for (const bool counted_twice : {false, true}) {
    Restored r(4);
    for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.history[3]);
    Headers forged = r.history;
    if (counted_twice) {
      *forged[2].mutable_contributors(0)->mutable_samples(0) = forged[0].contributors(0).samples(0);
    } else {
      forged[2].set_previous_header_digest(std::string(32, 'x'));
    }
    r.peers.TellHeaders("a", forged);
    EXPECT_EQ(r.peers.run->version(), 0u);  // all or nothing
    EXPECT_EQ(r.EndOf("a").code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(r.EndOf("a").message(),
                HasSubstr(counted_twice ? "are spent by another entry" : "the chain is broken"));
    ASSERT_NE(r.peers.Asked("b"), nullptr);
    r.peers.TellHeaders("b", r.history);
    EXPECT_EQ(r.peers.run->version(), 4u);
  }
}

// Would break: a peer whose log no longer reaches back makes the run hang, or is thrown out though
// another could help it in.
TEST(RunAdoption, OneThatLacksTheHeadersIsPassedOver) {
  Restored r(4);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.history[3]);
  r.peers.TellHeaders("a", {});
  ASSERT_NE(r.peers.Asked("b"), nullptr);
  r.peers.TellHeaders("b", r.history);
  EXPECT_EQ(r.peers.run->version(), 4u);
  EXPECT_EQ(r.peers.StateOf("a"), "live");

  Restored nobody(4);
  for (const char* peer : {"a", "b"}) nobody.ComeBack(peer, &nobody.history[3]);
  for (const char* peer : {"a", "b"}) nobody.peers.TellHeaders(peer, {});
  EXPECT_THAT(nobody.EndOf("a").message(), HasSubstr("the headers from 1 on any more"));
  EXPECT_EQ(nobody.EndOf("b").code(), absl::StatusCode::kFailedPrecondition);
}

// Would break: a store that was lost altogether cannot be replaced by an empty one.
TEST(RunAdoption, AnEmptyStoreAdoptsVersionZeroToo) {
  Restored r(3);
  StoredRun empty;
  empty.spec = r.peers.stored.spec;
  empty.spec->mutable_data()->clear_digest();
  r.peers.Restart(empty);
  r.ComeBack("a", &r.history[2], 7);
  EXPECT_EQ(r.peers.Last("a", &v1::CoordinatorMessage::has_make_initial_state), nullptr);
  ASSERT_NE(r.peers.Asked("a"), nullptr);
  EXPECT_TRUE(r.peers.Asked("a")->genesis());
  r.peers.TellHeaders("a", r.history);
  EXPECT_EQ(r.peers.run->version(), 3u);
  ASSERT_TRUE(r.peers.stored.genesis.has_value());
  EXPECT_TRUE(r.peers.stored.started);
  EXPECT_EQ(r.peers.stored.leases.next, 60u);
  EXPECT_TRUE(r.peers.stored.leases.ranges.empty());  // all of it is spent
  EXPECT_EQ(r.peers.stored.epoch, 8u);
  r.ComeBack("b", &r.history[2], 7);
  r.peers.Commit({"a", "b"});
  EXPECT_EQ(r.peers.run->version(), 4u);
}

// Would break: a second version 0 is made beside the history of the peers, who are then thrown out.
TEST(RunAdoption, AHistoryThatComesWhileVersionZeroIsMadeWins) {
  Restored r(3);
  StoredRun empty;
  empty.spec = r.peers.stored.spec;
  empty.spec->mutable_data()->clear_digest();
  r.peers.Restart(empty);
  r.peers.JoinAndWork("c");
  EXPECT_EQ(r.peers.phase(), "initializing");
  r.ComeBack("a", &r.history[2]);
  r.peers.InitialState("c");
  EXPECT_FALSE(r.peers.stored.genesis.has_value());
  r.peers.TellHeaders("a", r.history);
  EXPECT_EQ(r.peers.run->version(), 3u);
}

// Would break: a key of the lost history is used a second time, and peers mix up two exchanges.
TEST(RunAdoption, TheEpochIsLaterThanAnyThatAPeerHasHeardOf) {
  Restored r(2);
  EXPECT_EQ(r.peers.stored.epoch, 2u);
  r.ComeBack("a", nullptr, 2);  // of the history that the store has forgotten
  EXPECT_EQ(r.peers.stored.epoch, 3u);
  EXPECT_EQ(r.peers.Last("a", &v1::CoordinatorMessage::has_welcome)->welcome().epoch(), 3u);
  r.ComeBack("a", nullptr, 3);  // a redial within this epoch
  EXPECT_EQ(r.peers.stored.epoch, 3u);
  r.ComeBack("b", nullptr, 40);
  EXPECT_EQ(r.peers.stored.epoch, 41u);
  EXPECT_EQ(r.peers.Last("a", &v1::CoordinatorMessage::has_welcome)->welcome().epoch(), 41u);
  r.ComeBack("b", nullptr, uint64_t{1} << 60);  // a lie
  EXPECT_EQ(r.peers.stored.epoch, 41u);
  EXPECT_EQ(r.EndOf("b").code(), absl::StatusCode::kInvalidArgument);
}

// Would break: training that goes on beside the restoration is thrown away or counted twice.
TEST(RunAdoption, TrainingThatGoesOnIsKept) {
  Restored r(5);
  for (const char* peer : {"a", "b"}) {
    v1::Hello hello = r.peers.Returning(peer, &r.history[4]);
    v1::SampleRange* range = hello.add_samples();
    range->set_first(*peer == 'a' ? 100 : 110);
    range->set_count(10);
    r.peers.Join(peer, &hello);
    r.peers.WorkerReady(peer);
    r.peers.samples[peer] = {hello.samples().begin(), hello.samples().end()};
  }
  r.peers.TellHeaders("a", r.history);
  for (const char* peer : {"a", "b"}) EXPECT_EQ(r.peers.Train(peer), nullptr);
  r.peers.Commit({"a", "b"});
  EXPECT_EQ(r.peers.run->version(), 6u);
  EXPECT_EQ(r.peers.Train("a")->samples(0).first(), 120u);
}

// Would break: a paused run loses what its peers know, or begins to train because of it.
TEST(RunAdoption, APausedRunAdoptsAndStaysPaused) {
  Restored r(2);
  ASSERT_TRUE(r.peers.Order(RunOrder::Verb::kPause).ok());
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.history[1]);
  r.peers.TellHeaders("a", r.history);
  EXPECT_EQ(r.peers.run->version(), 2u);
  EXPECT_EQ(r.peers.phase(), "paused");
  EXPECT_EQ(r.peers.Train("a"), nullptr);
}

// Would break: a stopped run is sealed at a version that its peers have left behind.
TEST(RunAdoption, AStoppedRunEndsAtTheAdoptedVersion) {
  Restored r(2);
  ASSERT_TRUE(r.peers.Order(RunOrder::Verb::kStop).ok());
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.history[1]);
  for (const char* peer : {"a", "b"}) r.peers.Report(peer);
  EXPECT_FALSE(r.peers.stored.seal.has_value());
  r.peers.TellHeaders("a", r.history);
  for (const char* peer : {"a", "b"}) r.peers.Evaluate(peer);
  for (const char* peer : {"a", "b"}) r.peers.Report(peer);
  ASSERT_TRUE(r.peers.stored.seal.has_value());
  EXPECT_EQ(r.peers.stored.seal->version(), 2u);
}

// Would break: a message that nobody asked for moves the history.
TEST(RunAdoption, HeadersThatWereNotAskedForDoNothing) {
  Restored r(3);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, &r.history[2]);
  v1::PeerMessage message;
  for (const auto& header : r.history) *message.mutable_headers()->add_headers() = header;
  r.peers.Say("b", message);  // a was asked
  EXPECT_EQ(r.peers.run->version(), 0u);
  r.peers.TellHeaders("a", r.history);
  r.peers.Say("a", message);
  EXPECT_EQ(r.peers.run->version(), 3u);
  EXPECT_EQ(r.peers.StateOf("a"), "live");
}

// A run whose history is signed: in this test, by the word "signed".
Restored Signed(uint64_t versions) {
  Restored r(versions);
  for (v1::EntryHeader& header : r.history) header.set_signature("signed");
  r.peers.settings.check_signed = [](const v1::EntryHeader& header) {
    return header.signature() == "signed" ? absl::OkStatus()
                                          : absl::PermissionDeniedError("it is not signed");
  };
  r.peers.settings.sign_epoch = [](const EpochClaim& claim) {
    return std::to_string(claim.epoch) + claim.life;
  };
  r.peers.settings.check_epoch = [](const EpochClaim& claim, const std::string& signature) {
    return signature == std::to_string(claim.epoch) + claim.life;
  };
  r.peers.settings.life = std::string(kLifeBytes, '2');
  r.peers.Restart();
  return r;
}

// Would break: whoever says, after a restart, that it holds a later version stops the training of
// all.
TEST(RunAdoption, AVersionIsBelievedOfWhoShowsItsSignedHeader) {
  Restored r = Signed(3);
  for (const char* lie : {"no header", "another header", "unsigned"}) {
    v1::Hello hello = r.peers.Returning("c", &r.history[2]);
    if (lie[0] == 'a') *hello.mutable_header() = r.history[1];
    if (lie[0] == 'u') {
      *hello.mutable_header() = r.history[2];
      hello.mutable_header()->clear_signature();
    }
    r.peers.Join("c", &hello);
    EXPECT_EQ(r.EndOf("c").code(), absl::StatusCode::kInvalidArgument) << lie;
    EXPECT_THAT(r.EndOf("c").message(), HasSubstr("does not show that it holds version 3"));
  }
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, nullptr);
  EXPECT_EQ(r.peers.phase(), "training");
  // What has moved since its Hello is shown as well.
  v1::PeerMessage synced;
  synced.mutable_synced()->set_version(3);
  synced.mutable_synced()->set_header_digest(r.peers.settings.header_digest(r.history[2]));
  r.peers.Say("a", synced);
  EXPECT_EQ(r.EndOf("a").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(r.peers.Asked("a"), nullptr);
  v1::Hello hello = r.peers.Returning("d", &r.history[2]);
  *hello.mutable_header() = r.history[2];
  r.peers.Join("d", &hello);
  ASSERT_NE(r.peers.Asked("d"), nullptr);
  r.peers.TellHeaders("d", r.history);
  EXPECT_EQ(r.peers.run->version(), 3u);
}

// Would break: one that holds a late version, is asked for it, and hangs up instead, again and
// again, keeps the others from training.
TEST(RunAdoption, WhoComesAndGoesInsteadOfAnsweringIsRefused) {
  Restored r(3);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, nullptr);
  int times = 0;
  for (; times < 20 && r.peers.ended.empty(); ++times) {
    r.ComeBack("c", &r.history[2]);
    if (r.peers.ended.empty()) r.peers.Break("c");
  }
  EXPECT_EQ(times, 9);
  EXPECT_THAT(r.EndOf("c").message(), HasSubstr("does not tell the history that it holds"));
  r.peers.Tick(absl::Seconds(10));
  for (const char* peer : {"a", "b"}) EXPECT_NE(r.peers.Train(peer), nullptr);
}

// Would break: a peer that names a later epoch each time it comes gives up every exchange.
TEST(RunAdoption, AnEpochIsBelievedOfWhoShowsThatItWasTold) {
  Restored r = Signed(0);
  for (const char* peer : {"a", "b"}) r.ComeBack(peer, nullptr);
  for (const char* peer : {"a", "b"}) r.peers.Ready(peer);
  ASSERT_EQ(r.peers.phase(), "exchanging");
  const uint64_t epoch = r.peers.stored.epoch;
  v1::Hello hello = r.peers.Returning("c", nullptr);
  hello.set_epoch(epoch + 1);
  hello.set_epoch_proof(
      r.peers.Last("a", &v1::CoordinatorMessage::has_welcome)->welcome().epoch_proof());
  r.peers.Join("c", &hello);
  EXPECT_EQ(r.EndOf("c").code(), absl::StatusCode::kInvalidArgument);
  // What this coordinator has told itself is no news, whichever process repeats it.
  for (uint64_t instance : {7u, 8u}) {
    hello.set_epoch(epoch);
    hello.set_instance(instance);
    r.peers.Join("c", &hello);
  }
  EXPECT_EQ(r.peers.stored.epoch, epoch);
  EXPECT_EQ(r.peers.phase(), "exchanging");
  // Of an earlier life, which this store has forgotten.
  const std::string life(kLifeBytes, '1');
  hello.set_epoch(epoch);
  hello.set_epoch_proof(life + std::to_string(epoch) + life);
  hello.set_peer("d");
  r.peers.Join("d", &hello);
  EXPECT_EQ(r.peers.stored.epoch, epoch + 1);
}

// A signed run of 5,000 rounds whose store was restored from version 100. Of its peers, a still has
// the headers from 3,001 on, b from 2,501 on; c holds no more than version 2,000.
struct OldBackup : Restored {
  OldBackup() : Restored(Signed(5000)) {
    const Headers old(history.begin(), history.begin() + 100);
    for (const char* peer : {"a", "b"}) Claim(peer, 100);
    peers.TellHeaders("a", old);
    peers.Restart();
    began = peers.now;
    for (const char* peer : {"a", "b"}) Claim(peer, 5000);
  }
  void Claim(const std::string& peer, uint64_t version) {
    v1::Hello hello = peers.Returning(peer, &history[version - 1]);
    *hello.mutable_header() = history[version - 1];
    peers.Join(peer, &hello);
    peers.WorkerReady(peer);
  }
  // All that is asked, of what the peer still has.
  void Tell(const std::string& peer, uint64_t oldest) {
    const uint64_t first = std::max(peers.Asked(peer)->first_version(), oldest);
    peers.TellHeaders(peer,
                      Headers(history.begin() + static_cast<int64_t>(first) - 1, history.end()));
  }

  absl::Time began;
};

// Would break: a backup that is older than the oldest header of every peer ends the run although
// all of them hold its state; or samples that were spent meanwhile are trained on again.
TEST(RunAdoption, ABackupOlderThanAllHeadersGoesOnWithTheOldestSignedOne) {
  OldBackup r;
  ASSERT_EQ(r.peers.run->version(), 100u);
  r.Tell("a", 3001);
  r.Tell("b", 2501);
  ASSERT_NE(r.peers.Asked("b"), nullptr);
  EXPECT_EQ(r.peers.Asked("b")->first_version(), 2501u);  // loses less than a's
  EXPECT_TRUE(r.peers.Asked("b")->genesis());
  int batches = 0;
  for (; r.peers.run->version() < 5000 && batches < 20; ++batches) {
    r.Tell(r.peers.Asked("b")->first_version() > r.peers.run->version() ? "b" : "a", 2501);
  }
  EXPECT_EQ(r.peers.run->version(), 5000u);
  EXPECT_TRUE(r.peers.Said("the headers from 101 to 2500 any more"));
  EXPECT_LE(r.peers.now - r.began, r.peers.settings.failure_timeout);
  ASSERT_EQ(r.peers.stored.gaps.size(), 1u);
  EXPECT_EQ(r.peers.stored.headers.size(), 100u + 2500u);
  // The highest sample that a header names is 99,999.
  for (const char* peer : {"a", "b"}) {
    ASSERT_NE(r.peers.Train(peer), nullptr);
    EXPECT_GE(r.peers.Train(peer)->samples(0).first(), 100000u);
  }
  r.peers.Commit({"a", "b"});
  EXPECT_EQ(r.peers.run->version(), 5001u);
  // A peer that stands in the gap is no stranger; its own chain tells it the rest.
  r.Claim("c", 2000);
  EXPECT_TRUE(r.EndOf("c").ok()) << r.EndOf("c");
  EXPECT_EQ(r.peers.run->Status(r.peers.now).peers(0).rounds_contributed(), 2601u);
  // And so over a restart, which reads the headers since the last checkpoint.
  r.peers.Restart();
  EXPECT_EQ(r.peers.run->version(), 5001u);
  EXPECT_EQ(r.peers.run->Status(r.peers.now).peers(0).rounds_contributed(), 2601u);
  EXPECT_GE(r.peers.stored.checkpoint.version, 5001u - 512);
}

// Would break: a gap lets in what nobody has signed, another run's history, or samples that were
// spent before the backup.
TEST(RunAdoption, AcrossAGapNothingIsBelievedThatTheKeyDoesNotVouchFor) {
  for (const char* lie : {"unsigned", "genesis", "spent", "chain"}) {
    OldBackup r;
    r.Tell("a", 3001);
    r.Tell("b", 2501);
    Headers forged(r.history.begin() + 2500, r.history.begin() + 2600);
    const v1::Genesis genesis = r.peers.recorded_genesis;
    if (lie[0] == 'u') forged[0].clear_signature();
    if (lie[0] == 'g') r.peers.recorded_genesis.set_state_digest("forged");
    if (lie[0] == 's') {
      *forged[0].mutable_contributors(0)->mutable_samples(0) =
          r.history[50].contributors(0).samples(0);
    }
    if (lie[0] == 'c') forged[50].set_previous_header_digest(std::string(32, 'x'));
    r.peers.TellHeaders("b", forged);
    EXPECT_FALSE(r.EndOf("b").ok()) << lie;
    EXPECT_EQ(r.peers.run->version(), 100u) << lie;
    EXPECT_TRUE(r.peers.stored.gaps.empty()) << lie;
    r.peers.recorded_genesis = genesis;
    ASSERT_NE(r.peers.Asked("a"), nullptr) << lie;
    EXPECT_EQ(r.peers.Asked("a")->first_version(), 3001u) << lie;
    r.Tell("a", 3001);
    EXPECT_EQ(r.peers.run->version(), 3256u) << lie;
  }
}

// Would break: a peer that names the oldest header that it has, and then does not tell it, holds
// the run up for ever.
TEST(RunAdoption, WhoNamesAnOldestHeaderAndDoesNotTellItIsRefused) {
  OldBackup r;
  r.peers.Die("a");
  int times = 0;
  for (; times < 5 && r.EndOf("b").ok(); ++times) {
    r.Tell("b", 2501 + 100 * static_cast<uint64_t>(times));
  }
  EXPECT_EQ(times, 3);
  EXPECT_THAT(r.EndOf("b").message(), HasSubstr("does not tell the history that it holds"));
  EXPECT_EQ(r.peers.run->version(), 100u);
}

}  // namespace
}  // namespace atolld
