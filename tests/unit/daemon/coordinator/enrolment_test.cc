// Would break: a token lets two keys in, a joiner whose answer was lost is shut out, or an evicted
// peer comes back with another certificate.
#include "daemon/coordinator/enrolment.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "compression/base/check.h"
#include "daemon/identity/certificate.h"
#include "daemon/identity/credentials.h"
#include "gmock/gmock.h"
#include "membership/trust/tokens.h"
#include "tests/sim/sim_ends.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr char kEnrol[] = "/atolld.v1.Membership/Enrol";
constexpr char kRenew[] = "/atolld.v1.Membership/Renew";

// A coordinator with an authority; its store outlives it.
class EnrolmentTest : public ::testing::Test {
 protected:
  EnrolmentTest() : w_(1) {
    w_.world.network().SetIdentity("operator", {"r1", Role::kAdmin, "operator", "1"});
    operator_ = &w_.world.AddProcess("operator");
    w_.world.AddProcess("coordinator", [this](Env env) {
      if (authority_ == nullptr) {
        authority_ = Authority::Make("r1", env.executor.WallTime(), [this] {
                       return ++drawn_ * 0x9e3779b97f4a7c15u;
                     }).value();
      }
      auto made = std::make_shared<Coordinator>(
          env, w_.config, std::make_unique<MemoryStore>(w_.disk), authority_.get());
      CHECK_OK(made->Start());
      return made;
    });
  }

  // Asks as a process of this identity; nothing is read of the answer before it is over.
  template <typename Answer>
  absl::StatusOr<Answer> Ask(const Identity& who, const std::string& method,
                             const google::protobuf::MessageLite& request) {
    if (!added_.insert(who.id).second) {
    } else if (who.role != Role::kAdmin) {
      w_.world.AddProcess(who.id);
    }
    w_.world.network().SetIdentity(who.id, who);
    Answer answer;
    absl::StatusOr<Answer> result = absl::UnknownError("not over");
    bool over = false;
    const auto call = w_.world.process(who.id).env().transport.Dial(w_.config.coordinator.address,
                                                                    method, absl::Minutes(1));
    call->Start({[&](const Frame& frame) {
                   CHECK_OK(Unpack(frame, &answer));
                   call->Read();
                 },
                 nullptr,
                 [&](const absl::Status& status) {
                   over = true;
                   if (status.ok()) {
                     result = answer;
                   } else {
                     result = status;
                   }
                 }});
    call->Read();
    call->Write(Pack(request));
    call->Finish(absl::OkStatus());
    CHECK(w_.world.RunUntil([&] { return over; }, absl::Minutes(2)));
    return result;
  }

  const Identity admin_{"r1", Role::kAdmin, "operator", "1"};

  v1::CreateTokenResponse Create(const std::string& peer, uint64_t seconds = 0) {
    v1::CreateTokenRequest request;
    request.set_peer(peer);
    request.set_valid_seconds(seconds);
    return Ask<v1::CreateTokenResponse>(admin_, "/atolld.v1.Admin/CreateToken", request).value();
  }

  // The identity that the token's certificate gives in a handshake.
  Identity Joiner(const v1::CreateTokenResponse& made) {
    const v1::JoinToken token = ParseJoinToken(made.token()).value();
    EXPECT_TRUE(CheckCredentials({token.authority(), token.certificate(), token.key()},
                                 operator_->executor().WallTime())
                    .ok());
    return ParseCertificate(token.certificate())->identity;
  }

  absl::StatusOr<v1::EnrolResponse> Enrol(const Identity& who, const PrivateKey& key,
                                          const std::string& method = kEnrol) {
    v1::EnrolRequest request;
    request.set_signing_request(*key.SigningRequest());
    return Ask<v1::EnrolResponse>(who, method, request);
  }

  absl::Status Evict(const std::string& peer, bool undo) {
    v1::EvictPeerRequest request;
    request.set_peer(peer);
    request.set_undo(undo);
    return Ask<v1::PeerStatus>(admin_, "/atolld.v1.Admin/EvictPeer", request).status();
  }

  CoordinatorWorld w_;
  SimProcess* operator_;
  std::unique_ptr<Authority> authority_;
  uint64_t drawn_ = 0;
  std::set<std::string> added_;
  const PrivateKey key_ = PrivateKey::Generate().value();
  const PrivateKey other_ = PrivateKey::Generate().value();
};

TEST_F(EnrolmentTest, ATokenLeadsToACertificateOfOnesOwn) {
  const v1::CreateTokenResponse made = Create("p1");
  EXPECT_EQ("open", made.status().state());
  EXPECT_EQ(w_.config.coordinator.address, ParseJoinToken(made.token())->address());
  EXPECT_EQ(std::string::npos, w_.world.LogText().find(made.token())) << "it was logged";
  const Identity joiner = Joiner(made);
  EXPECT_EQ(Role::kJoin, joiner.role);
  const auto answer = Enrol(joiner, key_);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const CertificateInfo info = ParseCertificate(answer->certificate()).value();
  EXPECT_EQ("p1", info.identity.id);
  EXPECT_EQ(Role::kPeer, info.identity.role);
  EXPECT_EQ(*key_.Digest(), info.key_digest);
  EXPECT_TRUE(CheckSignedBy(answer->certificate(), authority_->certificate()).ok());
  EXPECT_EQ("r1", answer->run_id());
  const auto list =
      Ask<v1::ListTokensResponse>(admin_, "/atolld.v1.Admin/ListTokens", v1::ListTokensRequest());
  ASSERT_EQ(1, list->tokens_size());
  EXPECT_EQ("spent", list->tokens(0).state());
}

// Broken: whoever joins would learn what it lacks only when its token is spent.
TEST_F(EnrolmentTest, ATokenDescribesItsRunAndStaysOpen) {
  const Identity joiner = Joiner(Create("p1"));
  const auto described = [&](const Identity& who) {
    return Ask<v1::RunDescription>(who, "/atolld.v1.Membership/Describe", v1::DescribeRequest());
  };
  const auto run = described(joiner);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ("r1", run->spec().run_id());
  EXPECT_EQ("peer", run->role());
  EXPECT_FALSE(run->begun());
  EXPECT_FALSE(run->has_seal());
  EXPECT_TRUE(w_.disk->run.tokens[0].key.empty()) << "it was spent";
  EXPECT_TRUE(Enrol(joiner, key_).ok());
  const Identity stranger{"r1", Role::kJoin, "p2", "77"};
  EXPECT_TRUE(absl::IsPermissionDenied(described(stranger).status()));
}

// The race: two keys, one token, and the coordinator killed at any time after the first has asked.
TEST_F(EnrolmentTest, OneKeyWinsAcrossACrashAndMayAskAgain) {
  const Identity joiner = Joiner(Create("p1"));
  ASSERT_TRUE(Enrol(joiner, key_).ok());  // say its answer was lost
  EXPECT_TRUE(absl::IsPermissionDenied(Enrol(joiner, other_).status()));
  w_.world.Kill("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  w_.world.Restart("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  const auto refused = Enrol(joiner, other_);
  EXPECT_TRUE(absl::IsPermissionDenied(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("spent"));
  const auto again = Enrol(joiner, key_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*key_.Digest(), ParseCertificate(again->certificate())->key_digest);
}

// The coordinator dies between the first asking and the answer: before the token's row is durable
// either key may still win, after it only the one whose row it is.
TEST_F(EnrolmentTest, ACrashBeforeTheRowForgetsAndOneAfterItKeeps) {
  for (const bool durable : {false, true}) {
    const std::string peer = durable ? "after" : "before";
    const Identity joiner = Joiner(Create(peer));
    const auto row = [&]() -> const TokenRecord& {
      for (const TokenRecord& token : w_.disk->run.tokens) {
        if (token.peer == peer) return token;
      }
      CHECK(false);
      return w_.disk->run.tokens[0];
    };
    if (!durable) w_.disk->fails = absl::ResourceExhaustedError("the disk is full");
    added_.insert(joiner.id);
    w_.world.AddProcess(joiner.id);
    w_.world.network().SetIdentity(joiner.id, joiner);
    bool answered = false;
    const auto call = w_.world.process(joiner.id).env().transport.Dial(
        w_.config.coordinator.address, kEnrol, absl::Minutes(1));
    call->Start({[&](const Frame&) { answered = true; }, nullptr, nullptr});
    call->Read();
    v1::EnrolRequest request;
    request.set_signing_request(*key_.SigningRequest());
    call->Write(Pack(request));
    const auto spent = [&] { return !row().key.empty(); };
    EXPECT_EQ(durable, w_.world.RunUntil(spent, absl::Seconds(3)));
    w_.world.Kill("coordinator");
    w_.world.RunFor(absl::Seconds(1));
    EXPECT_FALSE(answered) << "or the death came too late to tell anything";
    w_.disk->fails = absl::OkStatus();
    w_.world.Restart("coordinator");
    w_.world.RunFor(absl::Seconds(1));
    const auto second = Enrol(joiner, other_);
    const auto first = Enrol(joiner, key_);
    EXPECT_EQ(durable, first.ok()) << first.status();
    EXPECT_EQ(!durable, second.ok()) << second.status();
    const absl::Status lost = durable ? second.status() : first.status();
    EXPECT_THAT(std::string(lost.message()), HasSubstr("spent"));
    EXPECT_EQ(durable ? *key_.Digest() : *other_.Digest(), row().key);
  }
}

// One that floods is refused before anything of it is looked at, and takes nothing from others.
TEST_F(EnrolmentTest, OneThatAsksTooOftenIsRefusedAndOthersAreNot) {
  w_.config.limits.enrolments = 8;
  w_.world.Kill("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  w_.world.Restart("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  const Identity flooder = Joiner(Create("flooder"));
  const Identity other = Joiner(Create("other"));
  const uint64_t updates = w_.disk->updates;
  const absl::Time begun = operator_->executor().Now();
  int served = 0;
  absl::Status refused;
  for (int i = 0; i < 100; ++i) {
    const absl::Status status = Enrol(flooder, key_).status();
    served += status.ok() ? 1 : 0;
    if (!status.ok()) refused = status;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("more than once a second"));
  const double seconds = absl::ToDoubleSeconds(operator_->executor().Now() - begun);
  EXPECT_LE(served, 6 + seconds) << "5 at once, then one a second";
  EXPECT_EQ(static_cast<uint64_t>(served), w_.disk->updates - updates);
  EXPECT_TRUE(Enrol(other, other_).ok());
  w_.world.RunFor(absl::Seconds(6));
  EXPECT_TRUE(Enrol(flooder, key_).ok()) << "it is not shut out";
  // All together.
  w_.world.RunFor(absl::Seconds(6));
  refused = absl::OkStatus();
  for (int i = 0; i < 40; ++i) {
    const Identity nobody{"r1", Role::kJoin, "n-" + std::to_string(i), std::to_string(i)};
    const absl::Status status = Enrol(nobody, key_).status();
    if (absl::IsResourceExhausted(status)) refused = status;
  }
  EXPECT_THAT(std::string(refused.message()), HasSubstr("[limits] enrolments = 8"));
}

// Those that open a call and say nothing must not keep others from joining for long.
TEST_F(EnrolmentTest, SilentCallsAreBoundedAndMakeRoom) {
  w_.config.limits.enrolments = 1000;
  w_.world.Kill("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  w_.world.Restart("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  const Identity joiner = Joiner(Create("p1"));
  std::vector<std::unique_ptr<Reader>> silent;
  for (int i = 0; i < 65; ++i) {
    const std::string name = "n-" + std::to_string(i);
    w_.world.AddProcess(name);
    w_.world.network().SetIdentity(name, {"r1", Role::kJoin, name, name});
    silent.push_back(std::make_unique<Reader>());
    silent.back()->Start(w_.world.process(name).env().transport.Dial(w_.config.coordinator.address,
                                                                     kEnrol, absl::Minutes(1)));
  }
  w_.world.RunFor(absl::Seconds(1));
  for (int i = 0; i < 64; ++i) EXPECT_TRUE(silent[static_cast<size_t>(i)]->closed.empty()) << i;
  ASSERT_EQ(1u, silent[64]->closed.size());
  EXPECT_TRUE(absl::IsResourceExhausted(silent[64]->closed[0])) << silent[64]->closed[0];
  EXPECT_TRUE(absl::IsResourceExhausted(Enrol(joiner, key_).status()));
  w_.world.RunFor(absl::Seconds(10));
  for (const auto& call : silent) EXPECT_EQ(1u, call->closed.size());
  EXPECT_TRUE(Enrol(joiner, key_).ok());
}

// Rows of certificates that have expired are of no use any more, and would fill the store.
TEST_F(EnrolmentTest, WhatHasExpiredLeavesTheStore) {
  ASSERT_TRUE(Enrol(Joiner(Create("p1")), key_).ok());
  ASSERT_EQ(2u, w_.disk->run.certificates.size()) << "its own, and the operator's";
  for (const CertificateRecord& one : w_.disk->run.certificates) {
    EXPECT_NEAR(static_cast<double>(
                    absl::ToUnixSeconds(operator_->executor().WallTime() + kCertificateLife)),
                static_cast<double>(one.expires), 60);
  }
  CertificateRecord past = w_.disk->run.certificates[0];
  past.serial = "past";
  past.expires = absl::ToUnixSeconds(operator_->executor().WallTime() - absl::Hours(30));
  w_.disk->run.certificates.push_back(past);
  w_.world.Kill("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  w_.world.Restart("coordinator");
  w_.world.RunFor(absl::Seconds(1));
  ASSERT_EQ(2u, w_.disk->run.certificates.size()) << "at its start";
  for (const CertificateRecord& one : w_.disk->run.certificates) EXPECT_NE("past", one.serial);
}

// Broken: a token that an operator was told could not be made lets a machine in later.
TEST_F(EnrolmentTest, NoTokenIsMadeOrRevokedWhileTheDiskIsFull) {
  const v1::CreateTokenResponse made = Create("p1");
  w_.disk->fails = absl::ResourceExhaustedError("the disk is full");
  const absl::Status refused =
      Ask<v1::CreateTokenResponse>(admin_, "/atolld.v1.Admin/CreateToken", v1::CreateTokenRequest())
          .status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("nothing has changed"));
  v1::RevokeTokenRequest revoke;
  revoke.set_serial(made.status().serial());
  EXPECT_TRUE(absl::IsResourceExhausted(
      Ask<v1::TokenStatus>(admin_, "/atolld.v1.Admin/RevokeToken", revoke).status()));
  w_.disk->fails = absl::OkStatus();
  w_.world.RunFor(absl::Seconds(5));
  ASSERT_EQ(1u, w_.disk->run.tokens.size());
  EXPECT_FALSE(w_.disk->run.tokens[0].revoked);
  EXPECT_TRUE(Enrol(Joiner(made), key_).ok());
}

// Nothing is answered that the store does not hold.
TEST_F(EnrolmentTest, NoAnswerBeforeItIsDurable) {
  const Identity joiner = Joiner(Create("p1"));
  w_.disk->fails = absl::ResourceExhaustedError("the disk is full");
  v1::EnrolRequest request;
  request.set_signing_request(*key_.SigningRequest());
  w_.world.AddProcess("p1");
  added_.insert("p1");
  w_.world.network().SetIdentity("p1", joiner);
  bool answered = false;
  const auto call = w_.world.process("p1").env().transport.Dial(w_.config.coordinator.address,
                                                                kEnrol, absl::Minutes(1));
  call->Start({[&](const Frame&) { answered = true; }, nullptr, nullptr});
  call->Read();
  call->Write(Pack(request));
  w_.world.RunFor(absl::Seconds(5));
  EXPECT_FALSE(answered);
  EXPECT_TRUE(w_.disk->run.tokens.at(0).key.empty());
  w_.disk->fails = absl::OkStatus();
  w_.world.RunFor(absl::Seconds(3));
  EXPECT_TRUE(answered);
  EXPECT_EQ(*key_.Digest(), w_.disk->run.tokens.at(0).key);
}

TEST_F(EnrolmentTest, RefusesWhatIsWrong) {
  const v1::CreateTokenResponse made = Create("p1");
  const Identity joiner = Joiner(made);
  Identity forged = joiner;
  forged.serial = "4242";
  EXPECT_TRUE(absl::IsPermissionDenied(Enrol(forged, key_).status()));
  v1::EnrolRequest nonsense;
  nonsense.set_signing_request("nonsense");
  EXPECT_TRUE(absl::IsInvalidArgument(Ask<v1::EnrolResponse>(joiner, kEnrol, nonsense).status()));
  Identity peer = joiner;
  peer.role = Role::kPeer;
  EXPECT_TRUE(absl::IsPermissionDenied(Enrol(peer, key_).status())) << "not with that role";
  EXPECT_TRUE(absl::IsPermissionDenied(Enrol(joiner, key_, kRenew).status()));

  v1::RevokeTokenRequest revoke;
  revoke.set_serial(made.status().serial());
  ASSERT_TRUE(Ask<v1::TokenStatus>(admin_, "/atolld.v1.Admin/RevokeToken", revoke).ok());
  EXPECT_THAT(std::string(Enrol(joiner, key_).status().message()), HasSubstr("revoked"));
  revoke.set_serial("none");
  EXPECT_TRUE(absl::IsNotFound(
      Ask<v1::TokenStatus>(admin_, "/atolld.v1.Admin/RevokeToken", revoke).status()));

  const Identity late = Joiner(Create("p2", 60));
  w_.world.RunFor(absl::Seconds(61));
  EXPECT_THAT(std::string(Enrol(late, key_).status().message()), HasSubstr("expired"));
  v1::CreateTokenRequest king;
  king.set_role("king");
  EXPECT_TRUE(absl::IsInvalidArgument(
      Ask<v1::CreateTokenResponse>(admin_, "/atolld.v1.Admin/CreateToken", king).status()));
}

TEST_F(EnrolmentTest, AnEvictedPeersCertificatesAreRevokedAndPardoned) {
  const Identity joiner = Joiner(Create("a"));
  const auto enrolled = Enrol(joiner, key_);
  const Identity own = ParseCertificate(enrolled->certificate())->identity;
  w_.world.network().SetIdentity("a", own);
  // Now a member.
  auto session = std::make_shared<ScriptedPeer>(w_.world.process("a").env(), "a",
                                                w_.config.coordinator.address);
  w_.world.RunFor(absl::Seconds(2));
  ASSERT_FALSE(session->heard.empty());
  const auto renewed = Enrol(own, key_, kRenew);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  const Identity fresh = ParseCertificate(renewed->certificate())->identity;
  EXPECT_EQ("a", fresh.id);
  EXPECT_NE(own.serial, fresh.serial);

  session->closed.clear();
  ASSERT_TRUE(Evict("a", false).ok());
  w_.world.RunFor(absl::Seconds(1));
  ASSERT_FALSE(session->closed.empty());
  EXPECT_TRUE(absl::IsPermissionDenied(session->closed[0])) << session->closed[0];
  for (const Identity& who : {own, fresh}) {
    EXPECT_TRUE(absl::IsPermissionDenied(Enrol(who, key_, kRenew).status()));
  }
  EXPECT_TRUE(absl::IsPermissionDenied(Enrol(joiner, key_).status())) << "its token";
  size_t revoked = 0;
  for (const CertificateRecord& record : w_.disk->run.certificates) revoked += record.revoked;
  EXPECT_EQ(2u, revoked);
  v1::CreateTokenRequest request;
  request.set_peer("a");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Ask<v1::CreateTokenResponse>(admin_, "/atolld.v1.Admin/CreateToken", request).status()));
  ASSERT_TRUE(Evict("a", true).ok());
  EXPECT_TRUE(Enrol(own, key_, kRenew).ok());
}

// Whoever has stolen a key asks for a certificate of a key of its own: it would be a member for
// ever.
TEST_F(EnrolmentTest, RenewalKeepsTheKey) {
  const auto enrolled = Enrol(Joiner(Create("a")), key_);
  const Identity own = ParseCertificate(enrolled->certificate())->identity;
  const auto renewed = Enrol(own, key_, kRenew);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(*key_.Digest(), ParseCertificate(renewed->certificate())->key_digest);
  const size_t known = w_.disk->run.certificates.size();
  const auto stolen = Enrol(own, other_, kRenew);
  EXPECT_TRUE(absl::IsPermissionDenied(stolen.status()));
  EXPECT_THAT(std::string(stolen.status().message()),
              HasSubstr("renewal keeps the key; a new key needs a token"));
  EXPECT_EQ(known, w_.disk->run.certificates.size()) << "one was signed";
  Identity of_no_key = own;
  of_no_key.key.clear();
  EXPECT_TRUE(absl::IsPermissionDenied(Enrol(of_no_key, key_, kRenew).status()));
  // The operator's token is what gives the name another key.
  const auto again = Enrol(Joiner(Create("a")), other_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*other_.Digest(), ParseCertificate(again->certificate())->key_digest);
}

TEST_F(EnrolmentTest, ARevokedKeyIsRefusedAndItsNameMayComeBackWithAnother) {
  const Identity joiner = Joiner(Create("a"));
  const Identity own = ParseCertificate(Enrol(joiner, key_)->certificate())->identity;
  w_.world.network().SetIdentity("a", own);
  auto session = std::make_shared<ScriptedPeer>(w_.world.process("a").env(), "a",
                                                w_.config.coordinator.address);
  const Identity other =
      ParseCertificate(Enrol(Joiner(Create("b")), other_)->certificate())->identity;
  w_.world.network().SetIdentity("b", other);
  auto witness = std::make_shared<ScriptedPeer>(w_.world.process("b").env(), "b",
                                                w_.config.coordinator.address);
  w_.world.RunFor(absl::Seconds(2));
  ASSERT_FALSE(session->heard.empty());
  // What cannot be kept is refused, and has no effect when the disk has room again.
  constexpr char kRevoke[] = "/atolld.v1.Admin/RevokeIdentity";
  w_.disk->fails = absl::ResourceExhaustedError("the disk is full");
  v1::RevokeIdentityRequest request;
  request.set_identity(own.key.substr(0, 12));
  request.set_reason("a laptop\nwas stolen");
  const absl::Status refused = Ask<v1::RevokeIdentityResponse>(admin_, kRevoke, request).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("nothing has changed"));
  w_.disk->fails = absl::OkStatus();
  w_.world.RunFor(absl::Seconds(5));
  EXPECT_TRUE(session->closed.empty());
  ASSERT_TRUE(Ask<v1::RevokeIdentityResponse>(admin_, kRevoke, request).ok());
  w_.world.RunFor(absl::Seconds(1));
  ASSERT_FALSE(session->closed.empty());
  EXPECT_TRUE(absl::IsPermissionDenied(session->closed[0])) << session->closed[0];
  EXPECT_THAT(w_.world.LogText(), HasSubstr("of peer a: a laptop was stolen"));
  // The others are told which key it is.
  ASSERT_EQ(1, witness->roster.revoked_size());
  EXPECT_EQ("a", witness->roster.revoked(0).peer());
  EXPECT_EQ(own.key, absl::BytesToHexString(witness->roster.revoked(0).key()));
  EXPECT_TRUE(witness->closed.empty());
  for (const bool restarted : {false, true}) {
    if (restarted) {
      w_.world.Kill("coordinator");
      w_.world.RunFor(absl::Seconds(1));
      w_.world.Restart("coordinator");
      w_.world.RunFor(absl::Seconds(1));
    }
    EXPECT_TRUE(absl::IsPermissionDenied(Enrol(own, key_, kRenew).status())) << restarted;
    Identity unknown = own;  // the same key in a certificate that is not in the store
    unknown.serial = "4711";
    EXPECT_TRUE(absl::IsPermissionDenied(Enrol(unknown, key_, kRenew).status())) << restarted;
  }
  // An eviction that is undone does not pardon the key; a token spends nothing on it.
  ASSERT_TRUE(Evict("a", false).ok());
  ASSERT_TRUE(Evict("a", true).ok());
  const Identity back = Joiner(Create("a"));
  const auto revoked = Enrol(back, key_);
  EXPECT_THAT(std::string(revoked.status().message()), HasSubstr("the token is not spent"));
  const PrivateKey fresh = PrivateKey::Generate().value();
  const auto welcome = Enrol(back, fresh);
  ASSERT_TRUE(welcome.ok()) << welcome.status();
  const Identity again = ParseCertificate(welcome->certificate())->identity;
  EXPECT_TRUE(Enrol(again, fresh, kRenew).ok());
}

TEST_F(EnrolmentTest, AnOperatorSeesEveryKeyInPages) {
  for (const char* peer : {"a", "b", "c"}) ASSERT_TRUE(Enrol(Joiner(Create(peer)), key_).ok());
  std::vector<std::string> names;
  v1::ListIdentitiesRequest request;
  request.set_limit(2);
  for (int page = 0; page < 4; ++page) {
    const auto list =
        Ask<v1::ListIdentitiesResponse>(admin_, "/atolld.v1.Admin/ListIdentities", request);
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_LE(list->identities_size(), 2);
    for (const v1::IdentityStatus& one : list->identities()) {
      names.push_back(one.name());
      EXPECT_EQ("valid", one.state());
      if (one.name() == "operator") continue;
      EXPECT_EQ(*key_.Digest(), one.key());
      EXPECT_NEAR(static_cast<double>(absl::ToUnixSeconds(operator_->executor().WallTime())),
                  static_cast<double>(one.issued_unix_seconds()), 60);
    }
    request.set_after(list->next());
    if (list->next().empty()) break;
  }
  EXPECT_THAT(names, ::testing::ElementsAre("a", "b", "c", "operator"));
  // Neither its own key nor the coordinator's: nobody could take that back.
  v1::RevokeIdentityRequest revoke;
  revoke.set_identity("operator");
  EXPECT_TRUE(absl::IsNotFound(
      Ask<v1::RevokeIdentityResponse>(admin_, "/atolld.v1.Admin/RevokeIdentity", revoke).status()))
      << "a certificate of no key has no name";
  Identity admin = admin_;
  admin.serial = "2";
  admin.key = std::string(64, 'a');
  const auto own =
      Ask<v1::RevokeIdentityResponse>(admin, "/atolld.v1.Admin/RevokeIdentity", revoke);
  EXPECT_TRUE(absl::IsFailedPrecondition(own.status())) << own.status();
  revoke.set_identity("nobody-at-all");
  EXPECT_TRUE(absl::IsNotFound(
      Ask<v1::RevokeIdentityResponse>(admin, "/atolld.v1.Admin/RevokeIdentity", revoke).status()));
  // All keys of a name; here one that three names have is one key.
  revoke.set_identity("b");
  const auto all =
      Ask<v1::RevokeIdentityResponse>(admin, "/atolld.v1.Admin/RevokeIdentity", revoke);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(3, all->identities_size());
  for (const v1::IdentityStatus& one : all->identities()) EXPECT_EQ("revoked", one.state());
}

// A Hello in somebody else's name must not replace them.
TEST_F(EnrolmentTest, AHelloMustNameItsCertificatesPeer) {
  w_.world.network().SetIdentity("b", {"r1", Role::kPeer, "b", "77"});
  SimProcess& b = w_.world.AddProcess("b");
  ScriptedPeer liar(b.env(), "a", w_.config.coordinator.address);
  w_.world.RunFor(absl::Seconds(1));
  ASSERT_FALSE(liar.closed.empty());
  EXPECT_TRUE(absl::IsPermissionDenied(liar.closed[0])) << liar.closed[0];
  EXPECT_TRUE(liar.heard.empty());
  EXPECT_TRUE(w_.disk->run.members.empty());
}

// Would break: a run that waits for a machine whose packets do not come through names nobody.
TEST(NotHereYet, NamesThosePeersWhoHaveNeverShownTheirIdentity) {
  const absl::Time now = absl::FromUnixSeconds(1000000);
  const int64_t later = absl::ToUnixSeconds(now + absl::Hours(1));
  CertificateRecord p1{"s1", "p1", false, later};
  p1.role = "peer";
  p1.key = std::string(64, 'a');
  CertificateRecord p2{"s2", "p2", false, later};
  p2.role = "peer";
  p2.key = std::string(64, 'b');
  CertificateRecord admin{"s3", "me", false, later};
  admin.role = "admin";
  admin.key = std::string(64, 'c');
  EnrolmentBook book({}, {p1, p2, admin});
  EXPECT_EQ(NotHereYet(book, now),
            "; p1, p2 have identities and have not come: their logs say why");
  book.See(now, Identity{"r1", Role::kPeer, "p1", "s1", p1.key}, absl::Hours(1));
  EXPECT_EQ(NotHereYet(book, now), "; p2 has an identity and has not come: its log says why");
  v1::RunStatus status;
  ShowNeverCome(book, now, &status);
  ASSERT_EQ(status.never_come_size(), 1);
  EXPECT_EQ(status.never_come(0), "p2");
  status.clear_never_come();
  status.add_peers()->mutable_member()->set_peer("p2");
  ShowNeverCome(book, now, &status);
  EXPECT_EQ(status.never_come_size(), 0) << "it is among the run's peers";
  EXPECT_EQ(NotHereYet(book, now + absl::Hours(2)), "") << "it has run out";
}

}  // namespace
}  // namespace atolld
