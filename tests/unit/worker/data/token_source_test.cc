#include "worker/data/token_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/tokenizer.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Text(const TokenSpan& split) { return {split.bytes().begin(), split.bytes().end()}; }

absl::StatusOr<std::unique_ptr<TokenSource>> Open(const std::string& path, double fraction) {
  TokenSource::Options options;
  options.validation_fraction = fraction;
  return TokenSource::Open(path, options);
}

size_t Invalid(const std::string& text) {
  return FindInvalidUtf8(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

// Broken: peers would train and validate on different parts of the same file.
TEST(TokenSourceTest, SplitsAFileAndHashesIt) {
  const TemporaryFolder folder;
  Write(folder / "a.txt", "0123456789");
  const auto corpus = Open(folder / "a.txt", 0.2);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Text((*corpus)->train()), "01234567");
  EXPECT_EQ(Text((*corpus)->validation()), "89");
  EXPECT_EQ(absl::BytesToHexString((*corpus)->digest()),
            "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
}

// Broken: the order in which a file system lists a folder would change the corpus and its digest.
TEST(TokenSourceTest, AFolderIsItsFilesInOrderOfPath) {
  const TemporaryFolder folder;
  Write(folder / "b/c.txt", "third");
  Write(folder / "b.txt", "second");
  Write(folder / "a.txt", "first");
  const auto corpus = Open(folder.path(), 0);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(Text((*corpus)->train()), "first\nthird\nsecond");
  const auto same = TokenSource::FromText("first\nthird\nsecond", 0);
  EXPECT_EQ((*corpus)->digest(), (*same)->digest());
}

// Broken: a volunteer would not learn what is wrong with the data.
TEST(TokenSourceTest, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  const auto missing = Open(folder / "none", 0.1);
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("none: No such file"));

  Write(folder / "empty.txt", "");
  const auto empty = Open(folder / "empty.txt", 0.1);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("empty.txt is empty"));

  Write(folder / "latin1/x.txt", "caf\xe9 noir");
  for (const std::string& path : {folder / "latin1/x.txt", folder / "latin1"}) {
    const auto bad = Open(path, 0.1);
    EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("x.txt is not UTF-8 at byte 3"));
  }

  std::filesystem::create_directory(folder / "hollow");
  EXPECT_THAT(std::string(Open(folder / "hollow", 0.1).status().message()),
              HasSubstr("holds no files"));
}

// Broken: text that is no text would be trained on, or good text refused.
TEST(TokenSourceTest, Utf8IsCheckedStrictly) {
  EXPECT_EQ(Invalid("plain ascii, longer than a word"), 31u);
  EXPECT_EQ(Invalid("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8f\x9d"), 11u);
  EXPECT_EQ(Invalid("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"), 10u);
  EXPECT_EQ(Invalid("ab\xc0\x80"), 2u);        // overlong
  EXPECT_EQ(Invalid("ab\xe0\x9f\xbf"), 2u);    // overlong
  EXPECT_EQ(Invalid("\xed\xa0\x80"), 0u);      // surrogate
  EXPECT_EQ(Invalid("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(Invalid("12345678\x80"), 8u);      // continuation without a lead
  EXPECT_EQ(Invalid("1234567\xe2\x82"), 7u);   // cut short
}

// Broken: a corpus of lines of JSON would be trained on with its punctuation, or without the
// boundaries of its documents.
TEST(TokenSourceTest, LinesOfJsonAreTheirField) {
  const TemporaryFolder folder;
  Write(folder / "a.jsonl", "{\"text\": \"one\", \"id\": 1}\n\n{\"text\": \"caf\\u00e9\"}\n");
  const auto source = Open(folder / "a.jsonl", 0);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(Text((*source)->train()), "one\ncaf\xc3\xa9");

  const auto refuse = [&](const std::string& text, const std::string& why) {
    Write(folder / "b.jsonl", text);
    const auto bad = Open(folder / "b.jsonl", 0);
    EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("b.jsonl: the line at byte " + why));
  };
  refuse("{\"text\": \"x\"}\n{\"text\": \n", "14 is not a JSON object");
  refuse("[1]", "0 is not a JSON object");
  refuse("{\"text\": \"x\"}\n{\"body\": \"y\"}", "14 has no text under \"text\"");
  refuse("{\"text\": 7}", "0 has no text under \"text\"");
}

// Broken: ids of characters would not be nanoGPT's, or need more characters than a model has.
TEST(TokenSourceTest, CharactersAreNumberedInTheirOrder) {
  const TemporaryFolder folder;
  Write(folder / "a.txt",
        "b\xc3\xa9"
        "a\nb");
  TokenSource::Options options;
  options.tokenizer = "chars";
  options.validation_fraction = 0;
  const auto source = TokenSource::Open(folder / "a.txt", options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->tokenizer()->vocabulary(), 4u);
  EXPECT_EQ(Text((*source)->train()), std::string("\2\3\1\0\2", 5));
  options.vocabulary = 3;
  EXPECT_THAT(std::string(TokenSource::Open(folder / "a.txt", options).status().message()),
              HasSubstr("a.txt has a vocabulary of 4 tokens; the model's has 3"));
}

}  // namespace
}  // namespace atolld
