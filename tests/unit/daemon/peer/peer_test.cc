#include "daemon/peer/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compression/base/check.h"
#include "daemon/config/config.h"
#include "daemon/replica/state/layout.h"
#include "daemon/replica/state/update_log.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/peer/told_history.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

// A peer daemon whose own folder has rotted.
class SpoiledLogTest : public ::testing::Test {
 protected:
  SpoiledLogTest() : told_(files_, 3) {}

  // A peer started on a folder with that one bit flipped ends at once and names the record's
  // beginning; what it has found is left as it was.
  void ExpectRefused(const std::string& path, uint64_t record, uint64_t flipped) {
    ASSERT_TRUE(world_.process("p").disk().FlipBit(path, flipped, 3));
    const std::map<std::string, std::string> before = FilesBelow(files_, "/r");
    Config config;
    config.peer.id = "p";
    config.peer.dir = "/r";
    config.peer.listen = "p:1";
    config.coordinator.address = "coordinator:1";
    NoWorker trainer(env_.executor);
    Peer peer(env_, config, trainer, 1, [](absl::Status status) { FAIL() << status; });
    const absl::Status status = peer.Start();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(path, ": offset ", record)));
    std::map<std::string, std::string> after = FilesBelow(files_, "/r");
    EXPECT_EQ(after.erase("/r/signing_key.pem"), 1u) << "made at a first start";
    EXPECT_EQ(after, before);
  }

  SimWorld world_{1};
  Env env_ = world_.AddProcess("p").env();
  Files& files_ = env_.files;
  const ToldHistory told_;
};

TEST_F(SpoiledLogTest, AFlippedBitInTheHeadersIsNotRepairedAway) {
  // Broken: entries that were committed would be cut off as a torn tail, or trained upon.
  const absl::StatusOr<LogReader> log = LogReader::Open(files_, "/r", 1);
  ASSERT_TRUE(log.ok()) << log.status();
  const uint64_t second = log->BytesBefore(2);
  ExpectRefused(HeadersPath("/r"), second, second + 100);
}

TEST_F(SpoiledLogTest, AFlippedBitInTheGenesisIsNoEmptyFolder) {
  // Broken: a folder whose version 0 cannot be read would be joined into anew.
  ExpectRefused(GenesisPath("/r"), 0, 100);
}

// Would break: whoever speaks as the coordinator could take a replica away from its history, end
// its process, or hang it, and nobody would be told.

// A peer at version 3, and a coordinator that says in each Session what the test wants.
class RogueCoordinatorTest : public ::testing::Test {
 protected:
  using Says = std::vector<v1::CoordinatorMessage>;

  struct Session {
    std::unique_ptr<Call> call;
    std::vector<v1::PeerMessage> heard;
  };

  RogueCoordinatorTest() : told_(world_.AddProcess("p").env().files, 3) {
    Env env = world_.AddProcess("coordinator").env();
    auto listening = env.transport.Listen(
        "coordinator:1",
        [this](const std::string&, std::unique_ptr<Call> call) { Accept(std::move(call)); });
    CHECK_OK(listening.status());
    listener_ = *std::move(listening);
    config_.peer.id = "p";
    config_.peer.dir = "/r";
    config_.peer.listen = "p:1";
    config_.coordinator.address = "coordinator:1";
    Env peer = world_.process("p").env();
    trainer_ = std::make_unique<NoWorker>(peer.executor);
    peer_ = std::make_unique<Peer>(peer, config_, *trainer_, 1,
                                   [this](absl::Status status) { finished_ = status; });
  }

  void Accept(std::unique_ptr<Call> accepted) {
    sessions_.push_back(std::make_unique<Session>());
    Session& session = *sessions_.back();
    session.call = std::move(accepted);
    session.call->Start({[&session](Frame frame) {
                           v1::PeerMessage message;
                           CHECK_OK(Unpack(frame, &message));
                           session.heard.push_back(message);
                           if (message.has_leaving()) return session.call->Finish(absl::OkStatus());
                           session.call->Read();
                         },
                         nullptr, nullptr});
    session.call->Read();
    for (const v1::CoordinatorMessage& message : says_) session.call->Write(Pack(message));
  }

  v1::CoordinatorMessage Welcome(const std::function<void(v1::Welcome*)>& change = nullptr) const {
    v1::CoordinatorMessage message;
    *message.mutable_welcome() = told_.Welcome(3);
    if (change) change(message.mutable_welcome());
    return message;
  }
  static v1::CoordinatorMessage Roster() {
    v1::CoordinatorMessage message;
    *message.mutable_roster() = ToldHistory::Roster();
    return message;
  }
  static v1::CoordinatorMessage Commit(const v1::EntryHeader& header) {
    v1::CoordinatorMessage message;
    *message.mutable_commit()->mutable_header() = header;
    return message;
  }
  static v1::CoordinatorMessage Sealed(const v1::Seal& seal) {
    v1::CoordinatorMessage message;
    *message.mutable_sealed()->mutable_seal() = seal;
    return message;
  }
  v1::CoordinatorMessage Plan(const std::function<void(v1::Plan*)>& change = nullptr) const {
    v1::CoordinatorMessage message;
    *message.mutable_plan() = told_.Plan();
    if (change) change(message.mutable_plan());
    return message;
  }

  // The peer refuses this, says so to the coordinator and in its log, dials again less and less
  // often, and follows at once when an honest one is back.
  void ExpectRefused(const Says& says, const std::string& why) {
    SCOPED_TRACE(why);
    const size_t before = sessions_.size();
    says_ = says;
    if (!started_) CHECK_OK(peer_->Start());
    started_ = true;
    world_.RunFor(absl::Minutes(2));
    EXPECT_FALSE(finished_.has_value()) << *finished_;
    ASSERT_GT(sessions_.size(), before + 10);
    EXPECT_LT(sessions_.size(), before + 40);
    for (size_t i = before + 1; i + 1 < sessions_.size(); ++i) {
      ASSERT_FALSE(sessions_[i]->heard.empty());
      const v1::PeerMessage& last = sessions_[i]->heard.back();
      ASSERT_TRUE(last.has_leaving()) << last.ShortDebugString();
      EXPECT_THAT(last.leaving().reason(), HasSubstr("it does not believe the coordinator"));
      EXPECT_THAT(last.leaving().reason(), HasSubstr(why));
    }
    EXPECT_GE(world_.LogCount(absl::StrCat("is not believed: ")), 1u);
    says_ = {Welcome(), Roster()};
    world_.RunFor(absl::Seconds(20));
    const Session& honest = *sessions_.back();
    ASSERT_GE(honest.heard.size(), 2u);
    EXPECT_EQ(honest.heard[0].hello().version(), 3u);
    EXPECT_EQ(honest.heard[0].hello().header_digest(), ToBytes(told_.digest));
    EXPECT_TRUE(std::any_of(honest.heard.begin(), honest.heard.end(),
                            [](const v1::PeerMessage& said) { return said.has_synced(); }));
    EXPECT_FALSE(honest.heard.back().has_leaving());
    honest.call->Finish(absl::UnavailableError("the next one"));
    world_.RunFor(absl::Seconds(1));
  }

  SimWorld world_{1};
  const ToldHistory told_;
  Config config_;
  std::unique_ptr<Listener> listener_;
  Says says_;
  std::vector<std::unique_ptr<Session>> sessions_;
  std::unique_ptr<NoWorker> trainer_;
  std::unique_ptr<Peer> peer_;
  bool started_ = false;
  std::optional<absl::Status> finished_;
};

// Broken: the plan counts on a line whose owner has given less, and all others wait for it.
TEST_F(RogueCoordinatorTest, CapsAreToldAtOnceAndAgainByEachHello) {
  says_ = {Welcome(), Roster()};
  CHECK_OK(peer_->Start());
  world_.RunFor(absl::Seconds(2));
  ASSERT_EQ(sessions_.size(), 1u);
  EXPECT_EQ(sessions_[0]->heard[0].hello().up_rate(), 0u) << "nobody has said anything";
  peer_->SetCaps(1000000, 0);
  world_.RunFor(absl::Seconds(2));
  const auto told = std::find_if(sessions_[0]->heard.begin(), sessions_[0]->heard.end(),
                                 [](const v1::PeerMessage& said) { return said.has_line_caps(); });
  ASSERT_NE(told, sessions_[0]->heard.end());
  EXPECT_GE(told->line_caps().up_rate(), 950000u);
  EXPECT_LE(told->line_caps().up_rate(), 1000000u);
  EXPECT_EQ(told->line_caps().down_rate(), 0u);
  const uint64_t rate = told->line_caps().up_rate();
  sessions_[0]->call->Finish(absl::UnavailableError("the next one"));
  world_.RunFor(absl::Seconds(5));
  ASSERT_EQ(sessions_.size(), 2u);
  EXPECT_EQ(sessions_[1]->heard[0].hello().up_rate(), rate);
  peer_->SetCaps(0, 0);
  world_.RunFor(absl::Seconds(2));
  EXPECT_TRUE(std::any_of(sessions_[1]->heard.begin(), sessions_[1]->heard.end(),
                          [](const v1::PeerMessage& said) {
                            return said.has_line_caps() && said.line_caps().up_rate() == 0;
                          }));
}

// Broken: a peer whose folder was put back from a backup never gets into its run again.
TEST_F(RogueCoordinatorTest, ALivingProcessTakesAGreaterLifeThanTheOneThatItIsToldOf) {
  v1::CoordinatorMessage other;
  other.mutable_other_life()->set_reason("another process of peer p (pid 3) has been in the run");
  CHECK_OK(peer_->Start());
  world_.RunFor(absl::Seconds(1));
  ASSERT_EQ(sessions_.size(), 1u);
  const v1::Hello first = sessions_[0]->heard.at(0).hello();
  EXPECT_EQ(first.session(), 1u);
  other.mutable_other_life()->set_life(first.life() + 30);
  sessions_[0]->call->Write(Pack(other));
  sessions_[0]->call->Finish(absl::UnavailableError("ignored"));
  world_.RunFor(absl::Seconds(5));
  ASSERT_GE(sessions_.size(), 2u);
  const v1::Hello second = sessions_.back()->heard.at(0).hello();
  EXPECT_EQ(second.life(), first.life() + 31);
  EXPECT_EQ(second.instance(), first.instance());
  EXPECT_EQ(second.session(), 2u);
  EXPECT_EQ(world_.LogCount("another process of peer p (pid 3) has been in the run"), 1u);
  EXPECT_FALSE(finished_.has_value());
}

// Broken: a peer would train as in mode "sync" in a run of a later release's mode.
TEST_F(RogueCoordinatorTest, ARunOfAModeThatItDoesNotKnowIsRefusedByName) {
  says_ = {Welcome(
      [](v1::Welcome* welcome) { welcome->mutable_spec()->mutable_mode()->set_kind("tidal"); })};
  CHECK_OK(peer_->Start());
  world_.RunFor(absl::Seconds(5));
  ASSERT_TRUE(finished_.has_value());
  EXPECT_THAT(std::string(finished_->message()), HasSubstr("unknown mode \"tidal\""));
}

TEST_F(RogueCoordinatorTest, AForkedWelcomeIsRefused) {
  ExpectRefused({Welcome([&](v1::Welcome* w) {
                  *w->mutable_header() = told_.Forked(w->header(), told_.key);
                })},
                "the history is forked");
  ExpectRefused({Welcome([](v1::Welcome* w) { w->mutable_header()->clear_signature(); })},
                "entry 3: it is not signed");
  ExpectRefused({Welcome([](v1::Welcome* w) {
                  w->mutable_genesis()->set_state_digest(std::string(32, 's'));
                })},
                "another version 0");
  ExpectRefused({Welcome([](v1::Welcome* w) { w->mutable_spec()->set_run_id("other"); })},
                "it leads run other");
  ExpectRefused({Welcome([&](v1::Welcome* w) {
                  *w = told_.Welcome(2);
                  *w->mutable_header() = told_.Forked(w->header(), told_.key);
                })},
                "the history is forked: version 2");
}

TEST_F(RogueCoordinatorTest, AForgedCommitIsRefused) {
  v1::EntryHeader unsigned_next = told_.next;
  unsigned_next.clear_signature();
  ExpectRefused({Welcome(), Roster(), Commit(unsigned_next)}, "entry 4: it is not signed");
  ExpectRefused({Welcome(), Roster(), Commit(told_.Forked(told_.next, TestKey('x')))},
                "entry 4: its signature is not by");
  v1::EntryHeader astray = told_.next;
  astray.set_previous_header_digest(std::string(32, 'a'));
  astray.set_signature(SignHeader(told_.key, astray));
  ExpectRefused({Welcome(), Roster(), Commit(astray)}, "the history is forked: version 3");
  ExpectRefused({Welcome(), Roster(), Commit(told_.Forked(told_.headers[1], told_.key))},
                "the history is forked: version 2");
  ExpectRefused(
      {Welcome(), Roster(), Commit(told_.next), Commit(told_.Forked(told_.next, told_.key))},
      "the history is forked: version 4");
}

TEST_F(RogueCoordinatorTest, AForgedSealIsRefused) {
  v1::Seal seal = told_.seal;
  seal.clear_signature();
  ExpectRefused({Welcome(), Roster(), Sealed(seal)}, "seal of version 3: it is not signed");
  seal.set_header_digest(std::string(32, 'h'));
  seal.set_signature(SignSeal(told_.key, seal));
  ExpectRefused({Welcome(), Roster(), Sealed(seal)}, "its seal closes another history");
}

// Would break: a peer that has missed a change of the roster would go on without it.
TEST_F(RogueCoordinatorTest, ARosterChangeThatDoesNotFollowIsRefused) {
  v1::CoordinatorMessage delta;
  delta.mutable_roster_delta()->set_number(2);
  ExpectRefused({Welcome(), Roster(), delta}, "change 2 of its roster comes after change 0");
}

TEST_F(RogueCoordinatorTest, AnAbsurdOrderIsRefused) {
  ExpectRefused({Welcome([](v1::Welcome* w) { w->set_failure_timeout_milliseconds(1); })},
                "failure_timeout is 1ms");
  ExpectRefused({Welcome(), Roster(), Plan([](v1::Plan* p) { p->clear_deadline_milliseconds(); })},
                "gives the exchange 0");
  ExpectRefused({Welcome(), Roster(),
                 Plan([](v1::Plan* p) { p->mutable_contributors(0)->set_peer("stranger"); })},
                "contributor stranger, which is not on the roster");
  ExpectRefused(
      {Welcome(), Roster(), Plan([](v1::Plan* p) { p->mutable_shards(0)->set_chunks(1); })},
      "its shards end at chunk 1");
  ExpectRefused({Welcome(), Roster(), Plan([](v1::Plan* p) {
                   p->mutable_contributors(0)->set_weight_bits(0x7fc00000);
                 })},
                "weight of p1 is not above 0 and finite");
  ExpectRefused({Welcome(), Roster(), Plan([](v1::Plan* p) { p->clear_contributors(); })},
                "no contributors");
  ExpectRefused({Welcome(), Roster(), Plan(), Plan([](v1::Plan* p) { p->set_revision(1); })},
                "goes back from revision 2 to 1");
  ExpectRefused({Welcome(), Roster(), Plan(), Plan([](v1::Plan* p) {
                   p->set_revision(3);
                   p->mutable_contributors(0)->set_weight_bits(0x40000000);
                 })},
                "its contributors, weights, scales or signed roots are not those of the revision "
                "before");
  v1::CoordinatorMessage train;
  train.mutable_train()->set_version(5000);
  ExpectRefused({Welcome(), Roster(), train}, "it asks to train for version 5000");
  train.mutable_train()->set_version(4);
  ExpectRefused({Welcome(), Roster(), train}, "it asks for 0 steps");
  train.mutable_train()->set_steps(0xffffffffu);
  ExpectRefused({Welcome(), Roster(), train}, "it asks for 4294967295 steps");
  v1::CoordinatorMessage audit;
  audit.mutable_audit()->set_version(4);
  ExpectRefused({Welcome(), Roster(), audit}, "gives the audit 0");
  v1::CoordinatorMessage evaluate;
  evaluate.mutable_evaluate()->set_version(3);
  evaluate.mutable_evaluate()->set_share(2);
  evaluate.mutable_evaluate()->set_shares(2);
  ExpectRefused({Welcome(), Roster(), evaluate}, "share 2 of 2");
}

}  // namespace
}  // namespace atolld
