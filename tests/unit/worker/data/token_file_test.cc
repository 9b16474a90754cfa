#include "worker/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/training/fixtures.h"
#include "worker/data/token_source.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string Llmc(int32_t magic, int32_t version, int32_t tokens, const std::string& body) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return Raw(header) + body;
}

std::string Npy(const std::string& type, const std::string& shape, const std::string& body) {
  std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }");
  header.resize(117, ' ');
  header += '\n';
  return absl::StrCat(std::string("\x93NUMPY\x01\x00", 8), std::string(1, '\x76'),
                      std::string(1, '\0'), header, body);
}

class TokenFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  std::vector<int64_t> Ids(const std::string& name, const std::string& bytes) {
    const auto file = OpenTokenFile(Write(name, bytes));
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return {};
    std::vector<int64_t> ids(file->tokens.size());
    file->tokens.Read(0, absl::MakeSpan(ids));
    return ids;
  }

  std::string Wrong(const std::string& name, const std::string& bytes, uint64_t vocabulary) {
    const std::string path = Write(name, bytes);
    const auto file = OpenTokenFile(path);
    const absl::Status status = file.ok() ? CheckIds(path, *file, vocabulary) : file.status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
    return std::string(status.message());
  }

  const TemporaryFolder folder_;
};

// Broken: data that other programs have made would be read as other tokens than they meant.
TEST_F(TokenFileTest, ReadsWhatOtherProgramsWrite) {
  const std::vector<int64_t> ids = {1, 65535, 7};
  EXPECT_EQ(Ids("nano.bin", Raw<uint16_t>({1, 65535, 7})), ids);
  EXPECT_EQ(Ids("gpt2.bin", Llmc(20240520, 1, 3, Raw<uint16_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("llama.bin", Llmc(20240801, 7, 3, Raw<uint32_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("u1.npy", Npy("|u1", "(2,)", Raw<uint8_t>({3, 255}))),
            (std::vector<int64_t>{3, 255}));
  EXPECT_EQ(Ids("u2.npy", Npy("<u2", "(3,)", Raw<uint16_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("u4.npy", Npy("<u4", "(3,)", Raw<uint32_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("i4.npy", Npy("<i4", "(3,)", Raw<int32_t>({1, 65535, 7}))), ids);
  EXPECT_EQ(Ids("i8.npy", Npy("<i8", "(3,)", Raw<int64_t>({1, 65535, 7}))), ids);
}

// Broken: a damaged file would be trained on, or its owner not told what is wrong with it and
// where.
TEST_F(TokenFileTest, NamesWhatIsWrongAndWhere) {
  EXPECT_THAT(Wrong("odd.bin", "abc", 70000), HasSubstr("in the middle of a token: 3 bytes"));
  EXPECT_THAT(Wrong("empty.bin", "", 70000), HasSubstr("is empty"));
  EXPECT_THAT(Wrong("big.bin", Raw<uint16_t>({1, 2, 300}), 256),
              HasSubstr("has token 300 at byte 4; the vocabulary has 256"));
  const std::string two = Raw<uint16_t>({1, 2});
  EXPECT_THAT(Wrong("cut.bin", Llmc(20240520, 1, 2, "").substr(0, 500), 9),
              HasSubstr("ends at byte 500, inside the header"));
  EXPECT_THAT(Wrong("version.bin", Llmc(20240520, 7, 2, two), 9), HasSubstr("version 7 at byte 4"));
  EXPECT_THAT(Wrong("count.bin", Llmc(20240520, 1, 3, two), 9),
              HasSubstr("has 2 tokens; the header says 3 at byte 8"));
  EXPECT_THAT(Wrong("none.bin", Llmc(20240520, 1, 0, ""), 9), HasSubstr("holds no tokens"));
  EXPECT_THAT(Wrong("id.bin", Llmc(20240520, 1, 2, two), 2), HasSubstr("token 2 at byte 1026"));
  EXPECT_THAT(Wrong("magic.npy", two, 9), HasSubstr("magic number at byte 0"));
  EXPECT_THAT(Wrong("float.npy", Npy("<f4", "(2,)", two + two), 9), HasSubstr("type '<f4'"));
  EXPECT_THAT(Wrong("wide.npy", Npy("<u2", "(1, 2)", two), 9), HasSubstr("shape (1, 2)"));
  EXPECT_THAT(Wrong("short.npy", Npy("<u2", "(3,)", two), 9), HasSubstr("says 3"));
  EXPECT_THAT(Wrong("header.npy", Npy("<u2", "(2,)", "").substr(0, 60), 9),
              HasSubstr("broken NumPy header at byte 6"));
  EXPECT_THAT(Wrong("minus.npy", Npy("<i8", "(2,)", Raw<int64_t>({5, -1})), 9),
              HasSubstr("has token -1 at byte 136"));
}

// Broken: nanoGPT's own folder would be split anew, so that validation text is trained on.
TEST_F(TokenFileTest, ANanoGptFolderKeepsItsSplit) {
  Write("train.bin", Raw<uint16_t>({1, 2, 3, 4, 5}));
  Write("val.bin", Raw<uint16_t>({6, 7}));
  TokenSource::Options options;
  options.vocabulary = 8;
  const auto source = TokenSource::Open(folder_.path(), options);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->train().size(), 5u);
  EXPECT_EQ((*source)->validation().at(1), 7u);
  EXPECT_EQ((*source)->tokenizer(), nullptr);
  options.vocabulary = 7;
  EXPECT_THAT(std::string(TokenSource::Open(folder_.path(), options).status().message()),
              HasSubstr("val.bin has token 7 at byte 2"));
}

}  // namespace
}  // namespace atolld
