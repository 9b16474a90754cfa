#include "worker/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "tests/unit/worker/fixtures.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Text(absl::Span<const uint8_t> bytes) { return {bytes.begin(), bytes.end()}; }

size_t Invalid(const std::string& text) {
  return FindInvalidUtf8(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}

// Broken: peers would train and validate on different parts of the same file.
TEST(CorpusTest, SplitsAFileAndHashesIt) {
  const TemporaryFolder folder;
  Write(folder / "a.txt", "0123456789");
  const auto corpus = Corpus::Open(folder / "a.txt", 0.2);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_EQ(Text((*corpus)->train()), "01234567");
  EXPECT_EQ(Text((*corpus)->validation()), "89");
  EXPECT_EQ(absl::BytesToHexString((*corpus)->digest()),
            "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882");
}

// Broken: the order in which a file system lists a folder would change the corpus and its digest.
TEST(CorpusTest, AFolderIsItsFilesInOrderOfPath) {
  const TemporaryFolder folder;
  Write(folder / "b/c.txt", "third");
  Write(folder / "b.txt", "second");
  Write(folder / "a.txt", "first");
  const auto corpus = Corpus::Open(folder.path(), 0);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  EXPECT_THAT(Text((*corpus)->train()), "first\nthird\nsecond");
  const auto same = Corpus::FromText("first\nthird\nsecond", 0);
  EXPECT_EQ((*corpus)->digest(), (*same)->digest());
}

// Broken: a volunteer would not learn what is wrong with the data.
TEST(CorpusTest, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  const auto missing = Corpus::Open(folder / "none", 0.1);
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("none: No such file"));

  Write(folder / "empty.txt", "");
  const auto empty = Corpus::Open(folder / "empty.txt", 0.1);
  EXPECT_THAT(std::string(empty.status().message()), HasSubstr("empty.txt is empty"));

  Write(folder / "latin1/x.txt", "caf\xe9 noir");
  for (const std::string& path : {folder / "latin1/x.txt", folder / "latin1"}) {
    const auto bad = Corpus::Open(path, 0.1);
    EXPECT_TRUE(absl::IsInvalidArgument(bad.status()));
    EXPECT_THAT(std::string(bad.status().message()), HasSubstr("x.txt is not UTF-8 at byte 3"));
  }

  std::filesystem::create_directory(folder / "hollow");
  EXPECT_THAT(std::string(Corpus::Open(folder / "hollow", 0.1).status().message()),
              HasSubstr("holds no files"));
}

// Broken: text that is no text would be trained on, or good text refused.
TEST(CorpusTest, Utf8IsCheckedStrictly) {
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

}  // namespace
}  // namespace atolld
