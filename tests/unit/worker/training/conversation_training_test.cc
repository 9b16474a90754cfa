// Sequences of which some targets do not count: conversations, of which the answers are learnt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/training_data.h"
#include "worker/training/token_corpus.h"
#include "worker/training/trainer.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Prompts and completions as bytes, of a model that sees 16 of them.
class ConversationTrainingTest : public ::testing::Test {
 protected:
  ConversationTrainingTest() {
    spec_.mutable_data()->set_kind("chat");
    spec_.mutable_data()->set_validation_fraction(0.25);
    spec_.mutable_data()->set_private_(true);
  }

  struct Party {
    std::shared_ptr<const TrainingData> data;
    std::shared_ptr<const TokenCorpus> corpus;
  };

  static std::string Line(const std::string& prompt, const std::string& completion) {
    return "{\"prompt\": \"" + prompt + "\", \"completion\": \"" + completion + "\"}\n";
  }

  Party Open(const std::string& lines) {
    std::ofstream(folder_ / "a.jsonl") << lines;
    auto data = TrainingData::OpenOwn(spec_.data(), folder_ / "a.jsonl", 256,
                                      {nullptr, spec_.data().validation_fraction()});
    EXPECT_TRUE(data.ok()) << data.status();
    Party party;
    party.data = *std::move(data);
    auto corpus = TokenCorpus::Make(spec_, party.data);
    EXPECT_TRUE(corpus.ok()) << corpus.status();
    if (corpus.ok()) party.corpus = *std::move(corpus);
    return party;
  }

  std::unique_ptr<Trainer> Make(const Party& party,
                                const std::vector<std::string>& devices = {"cpu"}) {
    auto trainer = Trainer::Make(spec_, party.corpus, devices);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_TRUE((*trainer)->Initialise().ok());
    return *std::move(trainer);
  }

  // Of a trainer that is made for it.
  double Loss(const Party& party, const std::vector<uint64_t>& samples,
              const std::vector<std::string>& devices = {"cpu"}) {
    const auto loss = Make(party, devices)->Step(0, samples);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return loss.value_or(0);
  }

  const TemporaryFolder folder_;
  v1::RunSpec spec_ = TinySpec();
};

// Broken: a party's weight would count prompts, or padding.
TEST_F(ConversationTrainingTest, OnlyWhatIsLearntCounts) {
  const Party party =
      Open(Line("1+1=", "2") + Line("ab", "cdef") + Line("x", "yz") + Line("held ", "out"));
  EXPECT_EQ(party.corpus->samples(), 3u);
  std::vector<uint64_t> targets;
  for (uint64_t i = 0; i < 3; ++i) targets.push_back(party.corpus->TargetsOf(i));
  std::sort(targets.begin(), targets.end());
  EXPECT_THAT(targets, ElementsAre(2, 3, 5));  // a newline ends each
  const auto trainer = Make(party);
  const auto sum = trainer->Evaluate(trainer->parameters(), 0, 1, {});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(sum->tokens, 4u);
  EXPECT_NEAR(sum->loss_sum / 4, 5.545, 0.1);
}

// Broken: a short conversation would count as much as a long one, its padding be learnt, or a
// device and a part of a batch have a mean of their own.
TEST_F(ConversationTrainingTest, ABatchIsTheMeanOverItsTargets) {
  const Party party =
      Open(Line("1+1=", "2") + Line("ab", "cdef") + Line("x", "yz") + Line("held ", "out"));
  double sum = 0, targets = 0;
  for (uint64_t i = 0; i < 3; ++i) {
    const auto counted = static_cast<double>(party.corpus->TargetsOf(i));
    sum += Loss(party, {i}) * counted;
    targets += counted;
  }
  const double whole = Loss(party, {0, 1, 2});
  EXPECT_NEAR(whole, sum / targets, 1e-5);
  EXPECT_NEAR(Loss(party, {0, 1, 2}, {"cpu", "cpu"}), whole, 1e-5);
  spec_.mutable_inner()->set_accumulation(3);
  EXPECT_NEAR(Loss(party, {0, 1, 2}), whole, 1e-5);
}

// Broken: a conversation that is too long would be refused, or one that is cut before its answer be
// trained on as nothing.
TEST_F(ConversationTrainingTest, ConversationsAreCutToTheContext) {
  const std::string longer(40, 'p');
  const Party party = Open(Line("a", longer) + Line(longer, "never seen") + Line("b", "c"));
  EXPECT_EQ(party.corpus->samples(), 1u);
  EXPECT_THAT(party.corpus->notes(),
              ElementsAre(HasSubstr("1 conversation is longer than [model] context"),
                          HasSubstr("1 conversation was left out")));
  EXPECT_EQ(party.corpus->TargetsOf(0), 16u);
  std::ofstream(folder_ / "b.jsonl") << Line(longer, "never seen");
  const std::shared_ptr<const TrainingData> data =
      *TrainingData::OpenOwn(spec_.data(), folder_ / "b.jsonl", 256, {nullptr, 0});
  EXPECT_THAT(std::string(TokenCorpus::Make(spec_, data).status().message()),
              HasSubstr("has no conversation with anything to learn in its first 17 tokens"));
}

// Broken: joined conversations would not be windows of the context, or all of them be learnt.
TEST_F(ConversationTrainingTest, JoinedOnesAreCutAsText) {
  spec_.mutable_data()->set_packing("join");
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += Line("prompt", "ab");  // 9 bytes, of which 3 are learnt
  const Party party = Open(lines);
  const TokenCorpus::Row row = party.corpus->SampleRow(0);
  EXPECT_EQ(row.length, 17u);
  EXPECT_GE(row.Targets(), 3u);
  EXPECT_LE(row.Targets(), 7u);
  const auto trainer = Make(party);
  EXPECT_TRUE(trainer->Step(0, {0, 1, 2, 3}).ok());
  const auto sum = trainer->Evaluate(trainer->parameters(), 0, 1, {});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_GT(sum->tokens, 0u);
  EXPECT_LT(sum->tokens, 32u);
}

// Broken: fine-tuning would not teach the answer.
TEST_F(ConversationTrainingTest, TheAnswerIsLearnt) {
  std::string lines;
  for (const char* asked : {"sea?", "reef?", "isle?", "tide?"}) lines += Line(asked, "yes");
  spec_.mutable_data()->set_validation_fraction(0);
  const Party party = Open(lines);
  const auto trainer = Make(party);
  double loss = 0;
  for (uint64_t step = 0; step < 120; ++step) {
    const auto one = trainer->Step(step, {0, 1, 2, 3});
    ASSERT_TRUE(one.ok()) << one.status();
    loss = *one;
  }
  EXPECT_LT(loss, 0.5);
}

}  // namespace
}  // namespace atolld
