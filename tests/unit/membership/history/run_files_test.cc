#include "membership/history/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::RunSpec Listing(const std::function<void(v1::RunFile*)>& change = nullptr) {
  v1::RunSpec spec;
  v1::RunFile* file = spec.add_files();
  file->set_role(kTokenizerRole);
  file->set_name("tokenizer.json");
  file->set_bytes(10);
  file->set_digest(std::string(32, 'd'));
  if (change) change(file);
  return spec;
}

// Broken: the peer that makes version 0 could have others write outside their folder, or hold what
// does not fit their memory.
TEST(RunFilesTest, AListIsBoundedAndNamesNoOtherPlace) {
  EXPECT_TRUE(CheckRunFiles(Listing()).ok());
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "/etc/passwd", "a\nb", "\xc3\xa4"}) {
    const auto status = CheckRunFiles(Listing([&](v1::RunFile* file) { file->set_name(name); }));
    EXPECT_THAT(std::string(status.message()), HasSubstr("a name has")) << name;
  }
  const auto refused = [](const std::function<void(v1::RunFile*)>& change) {
    return absl::IsInvalidArgument(CheckRunFiles(Listing(change)));
  };
  EXPECT_TRUE(refused([](v1::RunFile* file) { file->set_name(std::string(101, 'a')); }));
  EXPECT_TRUE(refused([](v1::RunFile* file) { file->set_role("../x"); }));
  EXPECT_TRUE(refused([](v1::RunFile* file) { file->set_bytes(0); }));
  EXPECT_TRUE(refused([](v1::RunFile* file) { file->set_digest("short"); }));
  v1::RunSpec many = Listing();
  *many.add_files() = many.files(0);
  EXPECT_THAT(std::string(CheckRunFiles(many).message()), HasSubstr("twice"));
  many.clear_files();
  for (int i = 0; i <= kMostRunFiles; ++i) {
    *many.add_files() = Listing().files(0);
    many.mutable_files(i)->set_name("file" + std::to_string(i));
    EXPECT_EQ(i < kMostRunFiles, CheckRunFiles(many).ok()) << i;
  }
  v1::RunSpec large = Listing([](v1::RunFile* file) { file->set_bytes(kLargestRunFile + 1); });
  EXPECT_TRUE(CheckRunFiles(large).ok());  // it is listed, so that others are told of it
  EXPECT_FALSE(Travels(large.files(0)));
}

TEST(RunFilesTest, AnyFileHasANameThatMayBeListed) {
  for (const std::string& name :
       {std::string("my tokenizer.json"), std::string(".hidden"), std::string("\xc3\xa4.model"),
        std::string(300, 'x'), std::string()}) {
    EXPECT_TRUE(
        CheckRunFiles(Listing([&](v1::RunFile* file) { file->set_name(RunFileName(name)); })).ok())
        << name;
  }
  EXPECT_EQ("tokenizer.json", RunFileName("tokenizer.json"));
}

}  // namespace
}  // namespace atolld
