#include "worker/data/training_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/prepare.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

class TrainingDataTest : public ::testing::Test {
 protected:
  TrainingDataTest() {
    std::ofstream(folder_ / "a.txt") << SomeText(5000);
    std::ofstream(folder_ / "b.txt") << SomeText(1000);
    spec_.set_kind("text");
    spec_.set_validation_fraction(0.2);
  }

  std::string Tokenizer(const std::string& name) const {
    return absl::StrCat(ATOLL_TOKENIZER_VECTORS, "/", name, ".json");
  }

  std::string Prepared(const std::string& tokenizer) {
    PrepareOptions options;
    options.input = folder_ / "a.txt";
    options.output = folder_ / tokenizer;
    options.tokenizer = Tokenizer(tokenizer);
    options.validation_fraction = 0.2;
    EXPECT_TRUE(PrepareData(options).ok());
    return options.output;
  }

  std::unique_ptr<TrainingData> Open(const std::string& places) {
    auto data = TrainingData::Open(spec_, places, 1000);
    EXPECT_TRUE(data.ok()) << data.status();
    return *std::move(data);
  }

  std::string Refused(const std::string& places) {
    const auto data = TrainingData::Open(spec_, places, 1000);
    EXPECT_FALSE(data.ok());
    return std::string(data.status().message());
  }

  const TemporaryFolder folder_;
  v1::DataSpec spec_;
};

// Broken: a run of several sources would train on one of them, or peers that mix otherwise would
// not be told apart.
TEST_F(TrainingDataTest, SourcesAreMixedAsTheRunSays) {
  const std::string places = absl::StrCat(folder_ / "a.txt", "\n", folder_ / "b.txt");
  spec_.add_weights(0.75);
  spec_.add_weights(0.25);
  const auto data = Open(places);
  EXPECT_EQ(data->sources(), 2u);
  EXPECT_EQ(data->train_tokens(), 4800u);
  EXPECT_EQ(data->validation_tokens(), 1200u);
  EXPECT_EQ(data->digest().size(), 32u);
  EXPECT_THAT(Refused(folder_ / "a.txt"), HasSubstr("the run mixes 2 sources, here are 1"));
  const std::string digest = data->digest();
  spec_.set_weights(1, 0.5);
  EXPECT_NE(Open(places)->digest(), digest);
}

// Broken: a volunteer with another tokenizer or text would train on, and spoil the run.
TEST_F(TrainingDataTest, AnotherTokenizerOrOtherDataIsRefused) {
  const std::string gpt2 = Prepared("gpt2"), llama3 = Prepared("llama3");
  const auto data = Open(gpt2);
  spec_.set_digest(data->digest());
  spec_.set_tokenizer_digest(data->tokenizer()->digest());
  EXPECT_EQ(Open(gpt2)->digest(), data->digest());
  // The text itself is the same data.
  spec_.set_tokenizer("file");
  const std::string text = absl::StrCat(folder_ / "a.txt", "\ntokenizer ", Tokenizer("gpt2"));
  EXPECT_EQ(Open(text)->digest(), data->digest());
  EXPECT_THAT(Refused(llama3),
              HasSubstr(absl::StrCat("the tokenizer of ", llama3, " has SHA-256")));
  std::ofstream(folder_ / "a.txt") << SomeText(4999);
  EXPECT_THAT(Refused(text), HasSubstr("a.txt has SHA-256"));
}

// Broken: the ids of two tokenizers would be mixed in one model.
TEST_F(TrainingDataTest, SourcesAreOfOneTokenizer) {
  spec_.add_weights(1);
  spec_.add_weights(1);
  EXPECT_THAT(Refused(absl::StrCat(Prepared("gpt2"), "\n", Prepared("llama3"))),
              HasSubstr("llama3 is of another tokenizer than"));
}

// Broken: a model with too few ids would be given tokens beyond its table.
TEST_F(TrainingDataTest, TheVocabularyMustFit) {
  EXPECT_THAT(std::string(TrainingData::Open(spec_, Prepared("gpt2"), 256).status().message()),
              HasSubstr("the model's has 256: set [model] vocabulary where the run is made"));
}

// Broken: private data would be hashed and compared with what nobody knows; or a party would train
// on tokens of another tokenizer than the run's.
TEST_F(TrainingDataTest, PrivateDataHasNoNameButTheRunsTokenizer) {
  spec_.set_private_(true);
  const auto own = [&](const std::string& places) {
    return TrainingData::OpenOwn(spec_, places, 1000, {nullptr, 0.2});
  };
  const auto data = own(folder_ / "a.txt");
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->digest(), "");
  EXPECT_EQ((*data)->train_tokens(), 4000u);
  const std::string folder = Prepared("llama3");
  const auto prepared = own(folder);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  spec_.set_tokenizer_digest((*prepared)->tokenizer()->digest());
  EXPECT_TRUE(own(folder).ok());
  spec_.set_tokenizer_digest(std::string(32, 'x'));
  EXPECT_THAT(std::string(own(folder).status().message()), HasSubstr("the tokenizer of "));
  spec_.clear_tokenizer_digest();
  spec_.set_tokenizer("chars");
  EXPECT_THAT(std::string(own(folder_ / "a.txt").status().message()), HasSubstr("in its own way"));
}

}  // namespace
}  // namespace atolld
