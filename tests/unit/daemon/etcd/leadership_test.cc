#include "daemon/etcd/leadership.h"

#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/etcd/etcd_process.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLimit = absl::Seconds(30);

// A coordinator that would lead, and what it has heard.
class Candidate {
 public:
  Candidate(const EtcdProcess& etcd, const std::string& address, const std::string& authority = "",
            absl::Duration ttl = absl::Seconds(1)) {
    Leadership::Settings settings{etcd.access(), "atoll/r/", ttl,
                                  address,       authority,  absl::InfiniteDuration()};
    Leadership::Events events;
    events.on_leading = [this](std::shared_ptr<LeaderTerm> term) {
      const absl::MutexLock lock(&mutex_);
      term_ = std::move(term);
    };
    events.on_lost = [this](const std::shared_ptr<LeaderTerm>&, const std::string& why) {
      const absl::MutexLock lock(&mutex_);
      lost_ = why;
    };
    events.on_leader = [this](const std::string& leader) {
      const absl::MutexLock lock(&mutex_);
      leader_ = leader;
    };
    events.on_trouble = [this](const std::string& what) {
      const absl::MutexLock lock(&mutex_);
      trouble_ = what;
    };
    events.on_failed = [this](const absl::Status& why) {
      const absl::MutexLock lock(&mutex_);
      failed_ = why;
    };
    leadership_ = std::make_unique<Leadership>(settings, events);
  }

  std::shared_ptr<LeaderTerm> AwaitTerm() {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(
        mutex_.AwaitWithTimeout(absl::Condition(
                                    +[](Candidate* c) { return c->term_ != nullptr; }, this),
                                kLimit));
    return term_;
  }
  std::string AwaitLoss() {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(
                                            +[](Candidate* c) { return !c->lost_.empty(); }, this),
                                        kLimit));
    return lost_;
  }
  std::string AwaitLeader() {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(
        mutex_.AwaitWithTimeout(absl::Condition(
                                    +[](Candidate* c) { return !c->leader_.empty(); }, this),
                                kLimit));
    return leader_;
  }
  absl::Status AwaitFailure() {
    const absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(
                                            +[](Candidate* c) { return !c->failed_.ok(); }, this),
                                        kLimit));
    return failed_;
  }
  bool Leads() {
    const absl::MutexLock lock(&mutex_);
    return term_ != nullptr && !term_->over();
  }
  void Release() {
    {
      const absl::MutexLock lock(&mutex_);
      term_.reset();
      lost_.clear();
    }
    leadership_->Release();
  }

 private:
  absl::Mutex mutex_;
  std::shared_ptr<LeaderTerm> term_;
  std::string lost_, leader_, trouble_;
  absl::Status failed_;
  std::unique_ptr<Leadership> leadership_;
};

// Would break: nobody leads after an orderly end, or two do at a time.
TEST(Leadership, OneLeadsAndTheOtherFollowsIt) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  auto first = std::make_unique<Candidate>(etcd, "first:1");
  const std::shared_ptr<LeaderTerm> term = first->AwaitTerm();
  Candidate second(etcd, "second:1");
  EXPECT_EQ(second.AwaitLeader(), "first:1");
  EXPECT_FALSE(second.Leads());
  first.reset();
  EXPECT_TRUE(term->over());
  const std::shared_ptr<LeaderTerm> next = second.AwaitTerm();
  ASSERT_NE(next, nullptr);
  EXPECT_GT(next->fence(), term->fence());
}

// Would break: a leader whose lease is gone goes on, or never leads again.
TEST(Leadership, WhoLosesItsLeaseStopsAndMayLeadAgain) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  Candidate only(etcd, "only:1");
  const std::shared_ptr<LeaderTerm> term = only.AwaitTerm();
  ASSERT_NE(term, nullptr);
  EtcdClient client(etcd.access());
  ASSERT_TRUE(client.Revoke(term->lease(), absl::Seconds(10)).ok());
  EXPECT_THAT(only.AwaitLoss(), HasSubstr("lease"));
  EXPECT_TRUE(term->over());
  only.Release();
  const std::shared_ptr<LeaderTerm> next = only.AwaitTerm();
  ASSERT_NE(next, nullptr);
  EXPECT_GT(next->fence(), term->fence());
}

// Would break: a leader without etcd goes on past the end of its lease, while another one leads.
TEST(Leadership, WithoutEtcdItStopsByItsOwnClock) {
  SKIP_WITHOUT_ETCD();
  auto etcd = std::make_unique<EtcdProcess>();
  Candidate only(*etcd, "only:1");
  const std::shared_ptr<LeaderTerm> term = only.AwaitTerm();
  ASSERT_NE(term, nullptr);
  EXPECT_LE(term->left(), absl::Seconds(1));
  etcd.reset();
  EXPECT_THAT(only.AwaitLoss(), HasSubstr("could not be kept alive"));
  EXPECT_TRUE(term->over());
}

// Would break: a coordinator with keys of its own takes the run over, and no peer believes it.
TEST(Leadership, AnotherAuthorityIsRefused) {
  SKIP_WITHOUT_ETCD();
  EtcdProcess etcd;
  Candidate first(etcd, "first:1", "authority 1");
  first.AwaitTerm();
  Candidate second(etcd, "second:1", "authority 2");
  const absl::Status refused = second.AwaitFailure();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--backup"));
}

}  // namespace
}  // namespace atolld
