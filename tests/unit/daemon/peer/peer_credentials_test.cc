// Would break: a peer that is never renewed falls out of its run after ninety days, or one takes a
// certificate that it cannot use.
#include "daemon/peer/peer_credentials.h"

#include <memory>
#include <string>

#include "compression/base/check.h"
#include "daemon/identity/authority.h"
#include "daemon/identity/credentials.h"
#include "gmock/gmock.h"
#include "tests/sim/sim_ends.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFolder[] = "/p1/identity";
constexpr absl::Duration kDay = absl::Hours(24);

// A peer with a certificate, and who signs another one or does not.
class RenewalTest : public ::testing::Test {
 protected:
  RenewalTest() : world_(1) {
    peer_ = &world_.AddProcess("p1", [this](Env env) {
      auto made = std::make_shared<CertificateRenewal>(
          env, [] { return std::string("coordinator:1"); }, kFolder);
      renewal_ = made;
      return made;
    });
    coordinator_ = &world_.AddProcess("coordinator");
    world_.network().SetIdentity("p1", {"r1", Role::kPeer, "p1", "1"});
    authority_ = Authority::Make("r1", Now() - 365 * kDay, [this] {
                   return ++drawn_ * 0x9e3779b97f4a7c15u;
                 }).value();
  }

  absl::Time Now() { return peer_->executor().WallTime(); }

  // The peer's certificate was signed so long ago.
  void Hold(absl::Duration age) {
    CHECK_OK(SaveCredentials(peer_->env().files, kFolder,
                             MakeCredentials(*authority_, Role::kPeer, "p1", Now() - age).value()));
  }
  CertificateInfo Held() {
    return ParseCertificate(*ReadFile(peer_->env().files, CertificateFile(kFolder), 16384)).value();
  }

  void Listen() {
    listener_ =
        coordinator_->env()
            .transport
            .Listen(
                "coordinator:1",
                [this](const std::string& method, std::unique_ptr<Call> call) {
                  EXPECT_EQ("/atolld.v1.Membership/Renew", method);
                  ++asked_;
                  call_ = std::move(call);
                  call_->Start({[this](const Frame& frame) { Answer(frame); }, nullptr, nullptr});
                  call_->Read();
                })
            .value();
  }
  void Answer(const Frame& frame) {
    v1::EnrolRequest request;
    CHECK_OK(Unpack(frame, &request));
    v1::EnrolResponse response;
    response.set_certificate(
        authority_->Issue(request.signing_request(), Role::kPeer, signed_for_, Now()).value());
    if (nonsense_) response.set_certificate("nonsense");
    if (!refusal_.ok()) return call_->Finish(refusal_);
    call_->Write(Pack(response));
    call_->Finish(absl::OkStatus());
  }
  void Check() {
    renewal_.lock()->Check();
    world_.RunFor(absl::Minutes(1));
  }
  std::string Log() { return world_.LogText(); }

  SimWorld world_;
  SimProcess* peer_;
  SimProcess* coordinator_;
  std::unique_ptr<Authority> authority_;
  uint64_t drawn_ = 0;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<Call> call_;
  int asked_ = 0;
  std::string signed_for_ = "p1";
  bool nonsense_ = false;
  absl::Status refusal_;
  std::weak_ptr<CertificateRenewal> renewal_;
};

TEST_F(RenewalTest, OneWithAThirdOfItsLifeLeftIsRenewed) {
  Listen();
  Hold(59 * kDay);
  const CertificateInfo first = Held();
  Check();
  EXPECT_EQ(0, asked_) << "it is good for another month";
  EXPECT_EQ(first.identity.serial, Held().identity.serial);

  Hold(61 * kDay);
  const CertificateInfo old = Held();
  Check();
  EXPECT_EQ(1, asked_);
  const CertificateInfo fresh = Held();
  EXPECT_NE(old.identity.serial, fresh.identity.serial);
  EXPECT_EQ(old.key_digest, fresh.key_digest) << "the key stays";
  EXPECT_GE(fresh.not_after, Now() + 89 * kDay);
  EXPECT_TRUE(LoadCredentials(peer_->env().files, kFolder, Now()).ok());
  EXPECT_THAT(Log(), HasSubstr("the certificate is renewed"));
  Check();
  EXPECT_EQ(1, asked_) << "once";
}

TEST_F(RenewalTest, WhatFailsIsTriedAgain) {
  Hold(61 * kDay);
  const std::string serial = Held().identity.serial;
  Check();  // nobody is there
  EXPECT_THAT(Log(), HasSubstr("the certificate was not renewed: "));
  Listen();
  refusal_ = absl::ResourceExhaustedError("more ask for certificates; try again");
  Check();
  EXPECT_EQ(1, asked_);
  EXPECT_THAT(Log(), HasSubstr("more ask for certificates; try again"));
  EXPECT_EQ(serial, Held().identity.serial);
  refusal_ = absl::OkStatus();
  Check();
  EXPECT_EQ(2, asked_);
  EXPECT_NE(serial, Held().identity.serial);
}

// A Session may last for longer than the certificate that it began with.
TEST_F(RenewalTest, ItLooksAgainByItself) {
  Listen();
  Hold(60 * kDay - absl::Hours(10));
  Check();
  EXPECT_EQ(0, asked_);
  world_.RunFor(absl::Hours(11));
  EXPECT_EQ(0, asked_);
  world_.RunFor(absl::Hours(2));
  EXPECT_EQ(1, asked_);
  EXPECT_THAT(Log(), HasSubstr("the certificate is renewed"));
}

TEST_F(RenewalTest, AnExpiredOneIsSaidAndNotAskedFor) {
  Listen();
  Hold(91 * kDay);
  Check();
  EXPECT_EQ(0, asked_) << "no handshake would pass";
  EXPECT_THAT(Log(), HasSubstr("the certificate cannot be renewed: "));
  EXPECT_THAT(Log(), HasSubstr("peer p1 has expired"));
}

TEST_F(RenewalTest, NothingIsWrittenThatCouldNotBeUsed) {
  Listen();
  Hold(61 * kDay);
  const std::string serial = Held().identity.serial;
  signed_for_ = "p2";
  Check();
  EXPECT_THAT(Log(),
              HasSubstr("the renewed certificate cannot be used: the renewed certificate is of "
                        "peer p2"));
  nonsense_ = true;
  Check();
  EXPECT_EQ(2, asked_);
  EXPECT_EQ(serial, Held().identity.serial);
  EXPECT_THAT(Log(), Not(HasSubstr("the certificate is renewed")));
}

// The machine dies while the new certificate is written: the one or the other is there, whole.
TEST_F(RenewalTest, ACrashInTheMiddleLeavesOneThatIsGood) {
  for (uint64_t write = 1; write <= 4; ++write) {
    Listen();
    Hold(61 * kDay);
    world_.CrashAtWrite("p1", write, SimDisk::Crash::kLoseUnsynced);
    Check();
    EXPECT_FALSE(peer_->alive()) << "write " << write;
    world_.Restart("p1");
    world_.RunFor(absl::Seconds(1));
    const auto loaded = LoadCredentials(peer_->env().files, kFolder, Now());
    EXPECT_TRUE(loaded.ok()) << "write " << write << ": " << loaded.status();
    listener_.reset();
  }
}

}  // namespace
}  // namespace atolld
