#include "daemon/coordinator/admin_service.h"

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/daemon/coordinator/coordinator_world.h"

namespace atolld {
namespace {

constexpr char kLongRunAddress[] = "127.0.0.1:7070";
constexpr size_t kLargestMessage = size_t{4} << 20;

// A run of very many rounds, an evaluation after each and before the first, and its service.
class LongRun {
 public:
  LongRun(Env env, uint64_t rounds) {
    evaluations_.emplace_back();
    for (uint64_t version = 1; version <= rounds; ++version) {
      v1::RoundRecord& round = rounds_.emplace_back();
      round.set_version(version);
      round.set_tokens(10);
      round.set_train_loss(1.5);
      round.set_plan("weighted-regions");
      evaluations_.emplace_back().set_version(version);
    }
    AdminService::Source source;
    source.status = [this] {
      v1::RunStatus status;
      status.set_version(rounds_.size());
      status.mutable_seal()->set_version(rounds_.size());
      return status;
    };
    source.rounds = [this]() -> const std::vector<v1::RoundRecord>& { return rounds_; };
    source.evaluations = [this]() -> const std::vector<v1::EvaluationRecord>& {
      return evaluations_;
    };
    service_ = std::make_unique<AdminService>(env, std::move(source));
    listener_ = env.transport
                    .Listen(kLongRunAddress,
                            [this](const std::string& method, std::unique_ptr<Call> call) {
                              service_->Accept(method, &call);
                            })
                    .value();
  }

  AdminService& service() { return *service_; }

 private:
  std::vector<v1::RoundRecord> rounds_;
  std::vector<v1::EvaluationRecord> evaluations_;
  std::unique_ptr<AdminService> service_;
  std::unique_ptr<Listener> listener_;
};

class AdminServiceTest : public ::testing::Test {
 protected:
  AdminServiceTest() : world_(1) {
    world_.AddProcess("coordinator",
                      [](Env env) { return std::make_shared<LongRun>(env, kRounds); });
    world_.AddProcess("operator");
  }

  Env operator_env() { return world_.process("operator").env(); }

  v1::RunStatus Show(uint64_t first_version, uint32_t limit) {
    v1::ShowRunRequest request;
    request.set_first_version(first_version);
    request.set_limit(limit);
    Asker<v1::RunStatus> asker(operator_env(), kLongRunAddress, "ShowRun", request);
    CHECK(world_.RunUntil([&] { return asker.status.has_value(); }, absl::Minutes(1)));
    CHECK_OK(*asker.status);
    return asker.answers.at(0);
  }

  static constexpr uint64_t kRounds = 100000;
  SimWorld world_;
};

// Would break: `run show` and `peer list` of a run of more than some 40,000 rounds, whose answer
// was larger than a message.
TEST_F(AdminServiceTest, ShowsTheNewestRoundsOrThoseThatAreAskedFor) {
  const v1::RunStatus newest = Show(0, 0);
  EXPECT_LT(newest.ByteSizeLong(), kLargestMessage);
  ASSERT_EQ(newest.rounds_size(), 1000);
  EXPECT_EQ(newest.rounds(0).version(), kRounds - 999);
  EXPECT_EQ(newest.rounds(999).version(), kRounds);
  EXPECT_EQ(newest.evaluations_size(), 1000);
  EXPECT_EQ(newest.rounds_recorded(), kRounds);
  EXPECT_EQ(newest.tokens(), 10 * kRounds);  // of all, whatever is shown

  const v1::RunStatus first = Show(1, 2);
  ASSERT_EQ(first.rounds_size(), 2);
  EXPECT_EQ(first.rounds(1).version(), 2u);
  ASSERT_EQ(first.evaluations_size(), 3);  // that of version 0 too
  EXPECT_EQ(first.evaluations(0).version(), 0u);

  const v1::RunStatus middle = Show(500, 3);
  ASSERT_EQ(middle.rounds_size(), 3);
  EXPECT_EQ(middle.rounds(0).version(), 500u);
  ASSERT_EQ(middle.evaluations_size(), 3);
  EXPECT_EQ(middle.evaluations(2).version(), 502u);

  EXPECT_EQ(Show(kRounds + 1, 0).rounds_size(), 0);
  EXPECT_EQ(Show(kRounds + 1, 0).evaluations_size(), 0);
  EXPECT_EQ(Show(1, 100000).rounds_size(), 1000);
}

// Would break: `run watch` of a long run fails, or ends at the seal before the rounds are there.
TEST_F(AdminServiceTest, AWatcherGetsAllOfALongHistoryInPages) {
  Asker<v1::RunStatus> asker(operator_env(), kLongRunAddress, "WatchRun", v1::WatchRunRequest());
  ASSERT_TRUE(world_.RunUntil(
      [&] { return !asker.answers.empty() && asker.answers.back().has_seal(); }, absl::Minutes(1)));
  uint64_t rounds = 0;
  uint64_t evaluations = 0;
  for (const v1::RunStatus& status : asker.answers) {
    EXPECT_LT(status.ByteSizeLong(), kLargestMessage);
    for (const v1::RoundRecord& round : status.rounds()) EXPECT_EQ(round.version(), ++rounds);
    for (const v1::EvaluationRecord& evaluation : status.evaluations())
      EXPECT_EQ(evaluation.version(), evaluations++);
    EXPECT_EQ(status.has_seal(), &status == &asker.answers.back());
  }
  EXPECT_EQ(rounds, kRounds);
  EXPECT_EQ(evaluations, kRounds + 1);
}

// Would break: a dashboard that lacks part of the history, or that takes a run in which nothing
// happens for a coordinator that is gone.
TEST_F(AdminServiceTest, AFollowerGetsAllAndThenAStatusEveryInterval) {
  std::vector<v1::RunStatus> told;
  SimWorld world(2);
  world.AddProcess("coordinator", [&told](Env env) {
    auto run = std::make_shared<LongRun>(env, 2500);
    run->service().Follow(absl::Seconds(1),
                          [&told](const v1::RunStatus& news) { told.push_back(news); });
    run->service().AddEvent("something");
    return run;
  });
  ASSERT_TRUE(world.RunUntil([&told] { return told.size() >= 5; }, absl::Minutes(1)));
  const int rounds[] = {1000, 1000, 500, 0, 0};
  for (size_t i = 0; i < std::size(rounds); ++i) {
    EXPECT_EQ(rounds[i], told[i].rounds_size()) << i;
    EXPECT_EQ(i >= 2, told[i].has_seal()) << i;
    EXPECT_EQ(i == 1 ? 1 : 0, told[i].events_size()) << i;
  }
  EXPECT_EQ(1001u, told[1].rounds(0).version());
}

}  // namespace
}  // namespace atolld
